"""What a run consists of, and the minutes planned for it on two quiet cores."""

# part → (module, minutes planned for the whole, for a quick run), in the order in which they are measured and reported
PARTS = {
    "leases": ("leases", 8.8, 0.5),
    "queue": ("queues", 9.3, 1),
    "delayed": ("delayed", 3.5, 0.2),
    "clients": ("clients", 2, 0.2),
    "firing": ("firing", 12.5, 1),
    "lateness": ("lateness", 12, 0.8),
    "tick": ("tick", 4, 0.4),
    "size": ("size", 0.4, 0.2),
    "million": ("million", 9, 0.8),
    "sql": ("sqlruns", 9, 3),
}
# These are measured only where somebody names them: they need gigabytes on the disk.
BY_NAME = {
    "seen": ("seen", 12, 0.8),
    "reads": ("reads", 6, 0.5),
}
ALL = PARTS | BY_NAME
# a run of all parts ends within these, however slow the machine is: parts leave out what does not fit
LONGEST, LONGEST_QUICK = 72.5, 8.2
SLACK = 1.5  # a part may take that many times what was planned, as far as it takes nothing from those that follow


def planned(names, quick) -> dict:
    """part → minutes."""
    return {name: ALL[name][2 if quick else 1] for name in names}


def allowed(plan: dict, name: str, used: float, longest: float) -> float:
    """How many minutes a part may take, `used` minutes after the start of the run that is planned so."""
    names = list(plan)
    later = sum(plan[other] for other in names[names.index(name) + 1:])
    return max(plan[name] / 2, min(plan[name] * SLACK, longest - used - later))
