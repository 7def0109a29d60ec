"""`tilewright cmake-dir`: where TilewrightFamilies.cmake is."""

from __future__ import annotations

import click


@click.command("cmake-dir")
def command() -> None:
    """Print the folder for CMAKE_MODULE_PATH that holds TilewrightFamilies.cmake."""
    from ..data import cmake_folder

    click.echo(cmake_folder())
