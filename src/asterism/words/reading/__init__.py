"""Values and wishes in a person's words, by small grammars whose words are data: ``de.toml``, ``en.toml``, ``es.toml``.

A language file has plain phrases, patterns and sentences; anybody can add a language by a file of the same form.

- ``setting`` is the language, the time zone and the time of a message; ``words`` loads and checks a language file, and
  ``patterns`` compiles what it says.
- ``tokens`` splits a message. ``chart`` reads the slots of patterns over it, ``number_words`` numbers in words.
- ``values`` is what was read; ``dates``, ``times``, ``durations``, ``money`` and ``options`` read one
  kind each.
- ``scan`` finds all items of a message, ``clauses`` what corrects or negates them, ``ranges`` what belongs together,
  ``fitting`` which fields they fit, and ``sense`` what the message gives.
- ``replies`` is the meaning of a whole message, and ``spoken`` a value in words.
"""
