"""Schedules: plans and requests that start at times of a cron expression.

``cron`` computes the times, ``firing`` decides what a schedule does when one has come, and
``scheduler`` does it: each due time is recorded first, and its run has an id that follows from it.
So a due time starts one run, whichever process is killed when.
"""
