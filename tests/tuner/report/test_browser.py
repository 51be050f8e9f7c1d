"""The page of `tune report` in a browser: it draws without a complaint, filters, stays quick, and can be read by everybody."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import tilesmith
from helpers.browser import IS_THERE, chromium, complaints, fetched, opened, wait_for
from helpers.reports import fill_many, fill_strange

pytest.importorskip("plotly")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not IS_THERE, reason="there is no Chromium with its driver, or no Selenium"),
]

PLOTS = ("progress", "predicted", "roof", "space", "failures", "time")
MANY = 10_000
_TIMED = """
const done = arguments[arguments.length - 1], start = performance.now();
%s
requestAnimationFrame(() => requestAnimationFrame(() => done(performance.now() - start)));
"""


@pytest.fixture(scope="module")
def driver() -> Iterator[Any]:
    with chromium() as found:
        yield found


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("pages")
    fill_strange(folder / "strange.sqlite")
    fill_many(folder / "many.sqlite", MANY)
    return {
        name: tilesmith.report(path=folder / f"{name}.html", db=folder / f"{name}.sqlite")
        for name in ("strange", "many")
    }


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("name", ["strange", "many"])
def test_it_draws_without_a_complaint_and_without_a_network(
    driver: Any, pages: dict[str, Path], name: str, dark: bool
) -> None:
    opened(driver, pages[name], dark=dark)
    assert complaints(driver) == [] and fetched(driver) == []
    drawn = driver.execute_script(
        "return Object.keys(cards).filter((one) => cards[one].data && cards[one].querySelector('.main-svg'))"
    )
    assert set(drawn) == set(PLOTS)
    assert driver.execute_script("return document.querySelector('.no-webgl') === null")
    paper = driver.execute_script("return getComputedStyle(document.body).backgroundColor")
    assert (sum(map(int, paper[4:-1].split(","))) < 200) == dark
    drawn_on = driver.execute_script("return cards.progress.layout.paper_bgcolor")
    assert (drawn_on == "#171e26") == dark


def test_nothing_of_a_stranger_runs(driver: Any, pages: dict[str, Path]) -> None:
    opened(driver, pages["strange"])
    assert driver.execute_script("return document.documentElement.dataset.owned === undefined")
    assert (
        driver.execute_script(
            "return document.querySelectorAll('main img, main script, main a[href^=javascript], svg a').length"
        )
        == 0
    )
    shown = driver.execute_script("return document.body.innerText")
    assert "</script><script>" in shown and "\\x1b[31m" in shown


def test_filters_choose_and_can_be_cleared(driver: Any, pages: dict[str, Path]) -> None:
    from selenium.webdriver.common.by import By
    from selenium.webdriver.support.ui import Select

    opened(driver, pages["many"])
    timed = driver.execute_script("return DATA.tasks[0].trials.seconds.filter((one) => one !== null).length")
    assert said(driver) == (timed, timed)
    driver.execute_script("document.querySelector('details.filters').open = true")
    low, high = driver.find_elements(By.CSS_SELECTOR, "[aria-label^='rows, ']")
    value = low.find_elements(By.TAG_NAME, "option")[1].text
    Select(high).select_by_visible_text(value)
    Select(driver.find_element(By.CSS_SELECTOR, "[aria-label='rows, from']")).select_by_visible_text(value)
    wanted = driver.execute_script(_COUNT, "t0.rows", value)
    wait_for(driver, f"cards.said.textContent.startsWith('{wanted:,} of')")
    assert 0 < wanted < timed and driver.execute_script("return cards.predicted.data[2].x.length") == wanted
    assert driver.execute_script("return cards.space.data[0].dimensions.some((one) => one.constraintrange)")
    (button,) = [one for one in driver.find_elements(By.TAG_NAME, "button") if one.text == "Clear filters"]
    driver.execute_script("arguments[0].click()", button)
    wait_for(driver, f"cards.said.textContent.startsWith('{timed:,} of')")


_COUNT = """
const [name, value] = arguments, task = DATA.tasks[0], t = task.trials;
return t.id.filter((_, n) => {
  const place = task.sketches[t.sketch[n]].names.indexOf(name);
  return t.seconds[n] !== null && place >= 0 && String(t.config[n][place]) === value;
}).length;
"""


def said(driver: Any) -> tuple[int, int]:
    words = driver.execute_script("return cards.said.textContent").replace(",", "").split()
    return int(words[0]), int(words[2])


def test_an_axis_can_be_brushed_with_the_mouse(driver: Any, pages: dict[str, Path]) -> None:
    from selenium.webdriver.common.action_chains import ActionChains
    from selenium.webdriver.common.by import By

    opened(driver, pages["many"])
    driver.execute_script("document.getElementById('space').scrollIntoView({behavior: 'instant'})")
    before = said(driver)
    axis = driver.find_elements(By.CSS_SELECTOR, "#space .axis-brush")[2]
    ActionChains(driver).move_to_element_with_offset(axis, 0, 60).click_and_hold().move_by_offset(
        0, 90
    ).release().perform()
    wait_for(driver, "state.choice.filtered")
    assert 0 < said(driver)[0] < before[0]


def test_ten_thousand_trials_stay_smooth(driver: Any, pages: dict[str, Path], record_property: Any) -> None:
    """Drawn by software, on cores that others use as well: a device draws the lines in a fraction of that."""
    opened(driver, pages["many"])
    steps = {
        "filter": "state.choice.constrain(1, [-0.25, 0.25]); drawAll();",
        "clear": "state.choice.clear(); drawAll();",
        "by second": "state.by = 'second'; drawTrials();",
        "theme": "theme = 'dark'; applyTheme(draw);",
    }
    for name, step in steps.items():
        taken = min(driver.execute_async_script(_TIMED % step) for _ in range(3))
        record_property(name, f"{taken:.0f} ms")
        assert taken < 4000, (name, taken)


def test_everything_is_reached_by_the_keyboard(driver: Any, pages: dict[str, Path]) -> None:
    from selenium.webdriver.common.by import By
    from selenium.webdriver.common.keys import Keys

    opened(driver, pages["strange"])
    reached = []
    for _ in range(60):
        driver.switch_to.active_element.send_keys(Keys.TAB)
        reached.append(
            driver.execute_script(
                "const a = document.activeElement; return [a.tagName, a.id, a.textContent.slice(0, 40)]"
            )
        )
    kinds = {tuple(one[:2]) for one in reached} | {one[2] for one in reached}
    assert {("BUTTON", "theme"), ("SELECT", "sketch"), "Clear filters", "Choose by lists, without a mouse"} <= kinds
    driver.find_element(By.ID, "theme").send_keys(Keys.ENTER, Keys.ENTER)
    assert driver.execute_script("return document.documentElement.dataset.theme") == "dark"


@pytest.mark.parametrize("dark", [False, True])
def test_no_barrier_is_found(driver: Any, pages: dict[str, Path], dark: bool) -> None:
    """By axe-core, contrast among its rules."""
    found = importlib.util.find_spec("axe_playwright_python")
    if found is None or found.origin is None:
        pytest.skip("axe-core is not there: pip install --no-deps axe-playwright-python")
    opened(driver, pages["strange"], dark=dark)
    driver.execute_script("document.querySelectorAll('details').forEach((one) => (one.open = true))")
    script = next(Path(found.origin).parent.rglob("axe.min.js")).read_text()
    driver.execute_cdp_cmd("Runtime.evaluate", {"expression": script})
    driver.execute_cdp_cmd("Page.setBypassCSP", {"enabled": True})
    answer = driver.execute_async_script("const done = arguments[0]; axe.run().then(done)")
    wrong = [(one["id"], [node["html"][:90] for node in one["nodes"][:3]]) for one in answer["violations"]]
    assert wrong == [] and len(answer["passes"]) > 15
