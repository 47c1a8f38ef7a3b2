"""Have the kernel verify the policies FOLDER/*.o, without attaching them. Prints JSON: for each what it said, or ''."""

import json
import sys
from pathlib import Path

from accel_magic.lab.accelerator.policy import AttachedPolicy, PolicyRefusedError


def verdict(file):
    try:
        with AttachedPolicy(file.read_bytes(), file.stem):
            return ""
    except PolicyRefusedError as error:
        return error.log[-3000:]


def main():
    print(json.dumps({file.stem: verdict(file) for file in sorted(Path(sys.argv[1]).glob("*.o"))}))


main()
