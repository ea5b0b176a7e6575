"""Messages to people: a question waits, a run has failed or is stuck, a device is lost.

The store notes each fact in the transaction that makes it one; ``notifier`` notes lost devices.
``message`` chooses channels and writes the texts, ``sending`` sends a message, and ``notifier``
delivers: it records that it sends before it does, so a message that may have been sent before a
crash is sent again, and says so.
"""
