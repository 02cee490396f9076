"""Copies into the built package what stands at the root, where people look for it."""

from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

TEMPLATES = (".env.example", "prefect.yaml")
"""Read through `nightscreen/schemas/shipped.py`."""


class WithTemplates(build_py):
    """Builds the package, templates included."""

    def run(self) -> None:
        """Build, then copy; an editable install reads the root itself."""
        super().run()
        if not self.editable_mode:
            for name in TEMPLATES:
                self.copy_file(name, str(Path(self.build_lib) / "nightscreen" / name))


setup(cmdclass={"build_py": WithTemplates})
