"""The tables of the book's page on accuracy, from files of `kiln accuracy --json FILE`.

A cell is the largest error in units in the last place; where it is larger at subnormal arguments or
results, that follows after a slash. In brackets stands the share of results that are the float
nearest to the exact value.
"""

import json
import re
from pathlib import Path

TABLE = re.compile(r"(<!-- accuracy:(?P<type>\w+|devices) -->\n)(?P<body>.*?)(<!-- /accuracy -->)", re.DOTALL)
# The order of columns, by the beginning of the device's id.
FAMILIES = ("interp", "cpu", "cuda", "wgpu")


def family(results: dict) -> str:
    """The kind of device that a file is of."""
    return results["id"].split(":")[0]


def load(folder: Path) -> list[dict]:
    """The results of all devices, in the order of columns."""
    files = [json.loads(path.read_text()) for path in sorted(folder.glob("accuracy-*.json"))]
    return sorted(files, key=lambda results: FAMILIES.index(family(results)))


def error(ulp: float | None) -> str:
    """An error, rounded up to the digits that are shown."""
    if ulp is None:
        return "NaN"
    if ulp >= 1000:
        return f"{ulp:.1e}"
    return f"{-(-ulp * 100 // 1) / 100:.2f}"


def cell(row: dict | None) -> str:
    """What is known of a function on a device."""
    if row is None:
        return ""
    if "lacks" in row:
        return "not there"
    worst = row["worst"]["ulp"] if row["worst"] else 0.0
    text = error(worst)
    subnormal = row["subnormal"]["ulp"] if row["subnormal"] else 0.0
    if subnormal > worst and error(subnormal) != text:
        text += f" / {error(subnormal)}"
    share = row["rounded"] / max(row["results"] - row["undecided"], 1)
    return f"{text} ({share:.1%})"


def table(results: list[dict], of_type: str) -> str:
    """The table of a type: a row for each function, a column for each device."""
    names = []
    results = [device for device in results if any(row["type"] == of_type for row in device["rows"])]
    for device in results:
        names += [row["function"] for row in device["rows"] if row["type"] == of_type and row["function"] not in names]
    columns = [{row["function"]: row for row in device["rows"] if row["type"] == of_type} for device in results]
    lines = ["| | " + " | ".join(f"`{family(device)}`" for device in results) + " |", "|---|" + "---|" * len(results)]
    for name in names:
        lines.append(f"| `{name}` | " + " | ".join(cell(column.get(name)) for column in columns) + " |")
    return "\n".join(lines) + "\n"


def devices(results: list[dict]) -> str:
    """What was measured: where, how much of f32, at which commit."""
    lines = ["| | device | arguments of f32 | commit | date |", "|---|---|---|---|---|"]
    for device in results:
        count = "all" if device["f32"] == "all" else f"{device['f32']:,}"
        cells = [f"`{family(device)}`", device["device"], count, device["commit"], device["date"]]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def renew(text: str, folder: Path) -> str:
    """The text with its tables of accuracy renewed."""
    if not TABLE.search(text):
        return text
    results = load(folder)

    def body(match: re.Match) -> str:
        made = devices(results) if match["type"] == "devices" else table(results, match["type"])
        return match[1] + made + match[4]

    return TABLE.sub(body, text)
