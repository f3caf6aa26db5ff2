"""What Celery itself says of random crontabs: `oracle.py COUNT SEED`.

A line for each crontab, with its five fields and zone, and one for each stretch of time that was looked at: from, to, and when Beat
would have sent it there, each time asked from the time before. In Unix seconds.
"""

import random
import sys
from datetime import datetime, timedelta, timezone
from zoneinfo import ZoneInfo

from celery import Celery
from django_celery_beat.tzcrontab import TzAwareCrontab

YEARS = 5
MOST = 300
ZONES = ["UTC", "UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Africa/Casablanca", "Asia/Kolkata", "Africa/Cairo"]
MONTHS = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]
DAYS = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"]

app = Celery("oracle", set_as_current=True)
utc = timezone.utc


def number(choose, low, high, names):
    value = choose.randint(low, high)
    if names and choose.random() < 0.3:
        return choose.choice([str.lower, str.capitalize])(names[value - low])
    return choose.choice(["%d", "%d", "%d", "%02d"]) % value


def item(choose, low, high, names):
    step = choose.randint(1, high)
    a, b = number(choose, low, high, names), number(choose, low, high, names)
    return choose.choice(["*", f"*/{step}", f"{a}-{b}", f"{a}-{b}/{step}", a, a, a])


def field(choose, low, high, stars, names=None):
    if choose.random() < stars:
        return "*"
    return ",".join(item(choose, low, high, names) for _ in range(choose.randint(1, 3)))


def crontab(choose):
    # Some have what a person may have typed that Celery refuses.
    wrong = choose.random() < 0.05
    fields = [
        field(choose, 0, 60 if wrong else 59, 0.1),
        field(choose, 0, 23, 0.3),
        field(choose, 1, 31, 0.5),
        field(choose, 1, 12, 0.6, MONTHS),
        field(choose, 0, 6, 0.5, DAYS),
    ]
    if wrong and choose.random() < 0.5:
        fields[choose.randrange(5)] = choose.choice(["7x", "5/10", "*5", "", "1,,2", "mon", "*/0", "L"])
    return fields


def changes(zone, begin, end):
    """When the offset changes, to the minute, found day by day."""
    offset = lambda second: datetime.fromtimestamp(second, zone).utcoffset()
    for day in range(begin, end, 86400):
        low, high = day, day + 86400
        if offset(low) != offset(high):
            while high - low > 60:
                middle = (low + high) // 120 * 60
                low, high = (middle, high) if offset(middle) == offset(low) else (low, middle)
            yield high


def sent(schedule, zone, begin, end, most):
    """When Beat sends it in (begin, end], and where it was given up: the end, or the last time."""
    times, last = [], begin
    while len(times) < most:
        last_run = datetime.fromtimestamp(last, zone)
        schedule.nowfun = lambda: last_run
        due = last_run.astimezone(utc) + schedule.remaining_estimate(last_run)
        second = int(due.timestamp())
        assert second > last, (schedule, zone, last, second)
        if second > end:
            return times, end
        times.append(second)
        last = second
    return times, last


def main():
    count, seed = int(sys.argv[1]), int(sys.argv[2])
    choose = random.Random(seed)
    now = int(datetime.now(utc).timestamp())
    all_changes = {name: list(changes(ZoneInfo(name), now // 86400 * 86400, now + YEARS * 31556952)) for name in ZONES}
    for number in range(1, count + 1):
        fields, name = crontab(choose), choose.choice(ZONES)
        zone = ZoneInfo(name)
        minute, hour, day, month, week = fields
        print("spec", number, *fields, name, sep="\t")
        try:
            schedule = TzAwareCrontab(minute, hour, week, day, month, tz=zone, app=app)
        except Exception:  # Celery's own errors are of several kinds
            print("refused", number, sep="\t")
            continue
        # Beat is not asked from within a change, nor from a run that was late.
        begin = now // 86400 * 86400 + choose.randrange(365) * 86400 + 43200
        while any(abs(begin - change) < 172800 for change in all_changes[name]):
            begin += 86400
        end = begin + YEARS * 31556952
        times, reached = sent(schedule, zone, begin, end, MOST)
        print("times", number, begin, reached, "{%s}" % ",".join(map(str, times)), sep="\t")
        for change in all_changes[name]:
            if reached < change < end:
                around = 6 * 3600 if reached - begin < 30 * 86400 else 36 * 3600
                times, last = sent(schedule, zone, change - around, change + around, 3 * MOST)
                print("times", number, change - around, last, "{%s}" % ",".join(map(str, times)), sep="\t")


if __name__ == "__main__":
    main()
