"""Fields of a capture's frames, as tshark reads them."""
import subprocess


class Wrong(Exception):
    """What a capture is not allowed to be."""


def fields(path, names, options=()):
    """A dictionary of texts for every frame, by the names of the fields."""
    command = ["tshark", "-n", "-r", path, "-T", "fields", "-E", "separator=/t", "-E", "occurrence=f", *options]
    for n in names:
        command += ["-e", n]
    run = subprocess.run(command, capture_output=True, text=True)
    if run.returncode:
        raise Wrong(f"tshark: {run.stderr.strip()}")
    return [dict(zip(names, line.split("\t"))) for line in run.stdout.splitlines()]


def number(text):
    """What tshark prints for a number or a bit."""
    text = text.split(",")[0]
    if text in ("True", "False"):
        return int(text == "True")
    return int(text, 0)
