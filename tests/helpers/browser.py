"""A headless Chromium with a page in it. Tests that need one are skipped where it, its driver or Selenium is missing."""

from __future__ import annotations

import importlib.util
import json
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
IS_THERE = CHROMIUM is not None and DRIVER is not None and importlib.util.find_spec("selenium") is not None
_FLAGS = (
    "--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--hide-scrollbars", "--window-size=1280,900",
    "--use-gl=angle", "--use-angle=swiftshader", "--enable-unsafe-swiftshader",
)  # fmt: skip


@contextmanager
def chromium() -> Iterator[Any]:
    """The driver of a new browser."""
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    for flag in _FLAGS:
        options.add_argument(flag)
    options.binary_location = CHROMIUM or ""
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(DRIVER))
    try:
        yield driver
    finally:
        driver.quit()


def opened(driver: Any, page: Path, *, dark: bool = False, seconds: float = 60.0) -> None:
    """Opens a page and waits until its figures are drawn."""
    scheme = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": scheme})
    driver.get(page.as_uri())
    wait_for(driver, "document.documentElement.dataset.ready === 'true'", seconds)


def wait_for(driver: Any, condition: str, seconds: float = 20.0) -> None:
    """Waits until a condition of the page holds."""
    end = time.monotonic() + seconds
    while not driver.execute_script(f"return {condition}"):
        assert time.monotonic() < end, f"{condition}; {complaints(driver)}"
        time.sleep(0.05)


def complaints(driver: Any) -> list[str]:
    """Errors and warnings of the console; what the drawing of software says of its own speed is none."""
    logged = (entry["message"] for entry in driver.get_log("browser") if entry["level"] in ("SEVERE", "WARNING"))
    return [message for message in logged if "GPU stall" not in message]


def fetched(driver: Any) -> list[str]:
    """Addresses that the page asked for, but for its own file, data and blobs."""
    events = [json.loads(entry["message"])["message"] for entry in driver.get_log("performance")]
    asked = [e["params"]["request"]["url"] for e in events if e["method"] == "Network.requestWillBeSent"]
    return [address for address in asked if not address.startswith(("file:", "data:", "blob:"))]
