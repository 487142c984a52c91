//! Tests the console of `windlass up` in a browser. The panels must fill, be readable in both themes and on a small
//! screen, support the keyboard, and send requests only to the console's server.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use serde_json::{Value, json};

use crate::{
    Result,
    browser::{Browser, Page},
    embedded::Embedded,
};

/// The maximum time until the page shows an element. It is long, because it only distinguishes slow pages from broken
/// ones.
const PATIENCE: Duration = Duration::from_secs(20);

/// The tested screen sizes: two columns, one column, and a phone.
const SCREENS: [(u32, u32); 3] = [(1440, 900), (1000, 800), (400, 800)];

/// Reports whether each stage of the control loop has content.
const FILLED: &str = r##"
    document.readyState === "complete"
    && document.querySelector("#connection")?.dataset.state === "live"
    && document.querySelectorAll("#controllers .name").length > 3
    && document.querySelectorAll("#caches tbody tr").length > 3
    && document.querySelector("#rows .change.added") !== null
    && document.querySelector("#rows .outcome.done") !== null
    && document.querySelector("#rows .verb") !== null
    && document.querySelector(".spark .area") !== null
    && /^[1-9]/.test(document.querySelector("#reconciles-total").textContent)
    && document.querySelector("#leadership").textContent === "no election"
"##;

/// Returns the visible texts with too little contrast (WCAG AA).
const FAINT: &str = r#"
    (() => {
      const numbers = (color) => color.match(/[\d.]+/g).map(Number);
      const light = ([r, g, b]) => [r, g, b].map((c) => c / 255)
        .map((c) => (c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4))
        .reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
      const behind = (node) => {
        for (; node; node = node.parentElement) {
          const color = numbers(getComputedStyle(node).backgroundColor);
          if (color.length === 3 || color[3] === 1) return color;
        }
      };
      const found = new Set();
      const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
      while (texts.nextNode()) {
        const node = texts.currentNode.parentElement;
        if (!texts.currentNode.textContent.trim() || !node.checkVisibility() || node.closest(".unseen, .skip, svg, noscript")) continue;
        const style = getComputedStyle(node);
        const [a, b] = [light(numbers(style.color)), light(behind(node))];
        const contrast = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
        if (contrast < (parseFloat(style.fontSize) >= 24 ? 3 : 4.5)) {
          found.add(`${node.tagName}.${node.className} ${texts.currentNode.textContent.trim().slice(0, 20)}: ${contrast.toFixed(2)}`);
        }
      }
      return [...found];
    })()
"#;

/// `windlass` is the binary to test; `pictures` is the folder for screenshots.
pub(crate) fn run(windlass: &Path, pictures: Option<PathBuf>) -> Result {
    let Some(browser) = Browser::find() else {
        println!("the console in a browser: skipped, Chromium is not installed");
        return Ok(());
    };
    let started = Instant::now();
    if let Some(pictures) = &pictures {
        fs::create_dir_all(pictures)?;
    }
    let embedded = Embedded::start(windlass, &["--console", "127.0.0.1:0"])?;
    let address = embedded.console().ok_or("windlass up has not printed the address of its console")?.to_owned();
    let mut browser = browser.start()?;
    let mut page = browser.open(&address)?;

    until(&mut page, "each part of the page has content", FILLED)?;
    for theme in ["light", "dark"] {
        for (width, height) in SCREENS {
            look(&mut page, theme, (width, height), pictures.as_deref())?;
        }
    }
    keyboard(&mut page)?;
    names(&mut page)?;
    motion(&mut page)?;

    // The page must report the lost connection and retain its content.
    drop(embedded);
    until(&mut page, "the page reports the lost manager", r##"!document.querySelector("#away").hidden"##)?;
    holds(&mut page, "the tables stay", r##"document.querySelectorAll("#controllers .name").length > 3"##)?;

    let elsewhere: Vec<_> = page.requested().into_iter().filter(|url| !url.starts_with(&address)).collect();
    if !elsewhere.is_empty() {
        return Err(format!("the page sends requests to other servers: {elsewhere:?}").into());
    }
    let complaints: Vec<_> = page.complaints().into_iter().filter(|text| !text.contains("ERR_")).collect();
    if !complaints.is_empty() {
        return Err(format!("the browser reports errors: {complaints:#?}").into());
    }
    println!("the console in a browser: passed in both themes, {} s", started.elapsed().as_secs());
    Ok(())
}

/// Tests one theme on one screen.
fn look(page: &mut Page<'_>, theme: &str, (width, height): (u32, u32), pictures: Option<&Path>) -> Result {
    let features = json!([{"name": "prefers-color-scheme", "value": theme}]);
    page.call("Emulation.setEmulatedMedia", json!({"features": features}))?;
    let screen = json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500});
    page.call("Emulation.setDeviceMetricsOverride", screen)?;
    if let Some(pictures) = pictures {
        let taken = page.call("Page.captureScreenshot", json!({"captureBeyondViewport": true}))?;
        let picture = BASE64_STANDARD.decode(taken["data"].as_str().unwrap_or_default())?;
        fs::write(pictures.join(format!("console-{theme}-{width}.png")), picture)?;
    }
    let faint = page.value(FAINT)?;
    if faint.as_array().is_none_or(|texts| !texts.is_empty()) {
        return Err(format!("{theme}, {width} wide: texts with too little contrast: {faint:#}").into());
    }
    let fits = "document.documentElement.scrollWidth <= document.documentElement.clientWidth";
    holds(page, &format!("{theme}, {width} wide: no horizontal overflow"), fits)
}

fn keyboard(page: &mut Page<'_>) -> Result {
    page.press("p")?;
    let paused = r##"document.querySelector("#pause").getAttribute("aria-pressed") === "true""##;
    until(page, "p pauses", paused)?;
    holds(page, "the page shows the pause", r##"document.querySelector("#connection").textContent === "paused""##)?;
    page.press("p")?;
    until(page, "p resumes", &format!("!({paused})"))?;
    page.press("/")?;
    until(page, "/ focuses the filter", r#"document.activeElement.id === "only-text""#)?;
    let rows = r##"[...document.querySelectorAll("#rows tbody tr")].some((row) => row.checkVisibility())"##;
    holds(page, "there are rows", rows)?;
    for letter in ["z", "q", "x"] {
        page.press(letter)?;
    }
    until(page, "a text without matches hides all rows", &format!("!({rows})"))?;
    holds(page, "no match is reported", r##"document.querySelector("#no-rows").textContent.includes("filters")"##)?;
    page.press("Escape")?;
    until(page, "Escape shows the rows again", rows)?;
    page.value(r##"document.querySelector("#controllers .name").click()"##)?;
    let chosen = r##"
        (() => {
          const name = document.querySelector("#controllers .name").textContent;
          const rows = [...document.querySelectorAll("#rows tbody tr:not(.note)")].filter((row) => row.checkVisibility());
          return document.querySelector("#only-controller").value === name
            && rows.every((row) => row.querySelector(".controller").textContent === name);
        })()
    "##;
    until(page, "a controller's button shows its rows only", chosen)?;
    page.value(r##"document.querySelector("#controllers .name").click()"##)?;
    Ok(())
}

/// Checks that every control has an accessible name.
fn names(page: &mut Page<'_>) -> Result {
    let tree = page.call("Accessibility.getFullAXTree", json!({}))?;
    let nodes = tree["nodes"].as_array().ok_or("no accessibility tree")?;
    let of = |node: &Value, what: &str| node[what]["value"].as_str().unwrap_or_default().to_owned();
    let operable = ["button", "combobox", "searchbox", "textbox", "link", "image", "table"];
    let roles: BTreeSet<_> = nodes.iter().map(|node| of(node, "role")).collect();
    for role in ["button", "combobox", "searchbox", "heading", "main", "banner", "status"] {
        if !roles.contains(role) {
            return Err(format!("nothing is a {role}: {roles:?}").into());
        }
    }
    let is_nameless = |node: &&Value| {
        node["ignored"] != true && operable[..4].contains(&&*of(node, "role")) && of(node, "name").is_empty()
    };
    match nodes.iter().find(is_nameless) {
        None => Ok(()),
        Some(node) => Err(format!("a {} has no name: {node}", of(node, "role")).into()),
    }
}

/// Checks that the page respects `prefers-reduced-motion`.
fn motion(page: &mut Page<'_>) -> Result {
    let animated = r##"getComputedStyle(document.querySelector("#connection"), "::before").animationName"##;
    holds(page, "the light is animated", &format!("{animated} === 'breathe'"))?;
    let features = json!([{"name": "prefers-reduced-motion", "value": "reduce"}]);
    page.call("Emulation.setEmulatedMedia", json!({"features": features}))?;
    holds(page, "reduced motion stops the animation", &format!("{animated} === 'none'"))
}

fn holds(page: &mut Page<'_>, what: &str, condition: &str) -> Result {
    if page.value(condition)? == true { Ok(()) } else { Err(format!("check failed: {what}").into()) }
}

fn until(page: &mut Page<'_>, what: &str, condition: &str) -> Result {
    let deadline = Instant::now() + PATIENCE;
    while page.value(condition)? != true {
        if Instant::now() >= deadline {
            let text = page.value("document.body.innerText")?;
            return Err(format!("condition not met: {what}. The page:\n{}", text.as_str().unwrap_or_default()).into());
        }
        thread::sleep(Duration::from_millis(100));
    }
    Ok(())
}
