"""What stands in the docs to be typed."""

import re
from pathlib import Path

BLOCK = re.compile(r"^```(sh|python)\n(.*?)^```", re.MULTILINE | re.DOTALL)


def shortened(text: str) -> str:
    """Training is cut to one step, with one demonstration.

    Docs show what people type, tests check that it runs.
    """
    if text.startswith("handful "):
        text = re.sub(r"--demos \d+", "--demos 1", text)
        return f"{text} --steps 1" if text.startswith("handful train ") else text
    return re.sub(r"(train_step\(demos, [^)]*seed=0)\)", r"\1, steps=1)", text)


def commands_of(page: Path) -> list[tuple[str, str]]:
    """(language, text) of what is run: `handful` lines of sh blocks, and whole python blocks."""
    found = []
    for language, text in BLOCK.findall(page.read_text()):
        if language == "python":
            found.append((language, text))
        else:
            lines = [line.split(" #")[0].strip() for line in text.splitlines()]
            found += [("sh", line) for line in lines if line.startswith("handful ")]
    return [(language, shortened(text)) for language, text in found]
