"""The console: pages that show runs, as plain ES modules in ``web`` without a build step.

The modules of ``web`` need a browser, except ``fold.js``, ``layout.js`` and ``player``.
"""
