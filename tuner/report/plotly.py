"""Plotly's script, as its package brings it. The only file that imports plotly, and only when a page is written."""

from __future__ import annotations

from ...common.errors import EnvironmentFailure


def plotly_script() -> str:
    """The JavaScript of Plotly. EnvironmentFailure where the package is missing."""
    try:
        from plotly.offline import get_plotlyjs
    except ImportError as error:
        raise EnvironmentFailure(
            "a report needs plotly, which draws it",
            found=str(error),
            advice="pip install 'tilesmith[report]'",
        ) from error
    script: str = get_plotlyjs()
    return script
