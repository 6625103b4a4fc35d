//! Pages in headless Chromium, with real clicks.

use crate::common::browser::{complaints, in_browser, run, wait_until};
use crate::common::server::Server;
use crate::common::{Running, await_history, root};
use fantoccini::actions::{InputSource, MOUSE_BUTTON_LEFT, MouseActions, PointerAction};
use fantoccini::{Client, Locator};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// The canary of all tests here: a page that goes wrong is noticed.
#[test]
#[ignore = "runs every night, by .ci/nightly"]
fn an_error_in_a_page_is_seen_by_night() {
    in_browser(async |client| {
        client.goto("data:text/html,<p>hello</p><script>missing.home()</script>").await.unwrap();
        wait_until(client, "return document.readyState === 'complete'").await;
        assert_eq!(run(client, "return document.querySelector('p').textContent").await, "hello");
        let complaints = complaints(client).await;
        assert!(complaints.len() == 1 && complaints[0].contains("missing"), "{complaints:?}");
    });
}

/// The example's folder, judged and drawn anew.
fn example() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let example = Path::new(root()).join("docs/examples/redlock-clock-jump");
    for name in ["run.toml", "history.jsonl", "clocks.jsonl"] {
        std::fs::copy(example.join(name), folder.path().join(name)).expect("the example has its files");
    }
    std::fs::create_dir(folder.path().join("plots")).expect("a writable folder");
    let analyzed = Command::new(crate::PROGRAM).arg("analyze").arg(folder.path()).output();
    assert_eq!(analyzed.expect("the program starts").status.code(), Some(1), "the example is a violation");
    folder
}

async fn number(client: &Client, script: &str) -> f64 {
    run(client, script).await.as_f64().unwrap_or_else(|| panic!("{script} gives no number"))
}

async fn press(client: &Client, key: &str) {
    let key = format!(
        "document.querySelector('canvas').dispatchEvent(new KeyboardEvent('keydown', {{key: '{key}'}}))"
    );
    run(client, &key).await;
    run_frame(client).await;
}

/// Waits until the page has drawn what it was asked to.
async fn run_frame(client: &Client) {
    let twice = "requestAnimationFrame(() => requestAnimationFrame(arguments[0]))";
    client.execute_async(twice, Vec::new()).await.expect("a frame");
}

async fn click(client: &Client, selector: &str) {
    client.find(Locator::Css(selector)).await.expect(selector).click().await.expect(selector);
    run_frame(client).await;
}

const SPAN: &str = "const {from, to} = document.querySelector('canvas').dataset; return to - from";
const DETAILS: &str = "return document.querySelector('.explorer .details').textContent";

#[test]
#[ignore = "runs every night, by .ci/nightly"]
fn a_report_can_be_looked_around_in_by_night() {
    let folder = example();
    in_browser(async |client| {
        client.goto(&format!("file://{}/report.html", folder.path().display())).await.unwrap();
        wait_until(client, "return !document.querySelector('.explorer').hidden").await;
        a_violation_opens(client).await;
        the_timeline_zooms_and_moves(client).await;
        a_click_shows_events(client).await;
        light_and_dark_change_places(client).await;
        assert_eq!(complaints(client).await, Vec::<String>::new());
    });
}

async fn a_violation_opens(client: &Client) {
    let shown = "return document.querySelector('details.violated svg').getBoundingClientRect().height > 0";
    assert_eq!(run(client, shown).await, true, "the first one is open");
    click(client, "details.violated > summary").await;
    assert_eq!(run(client, "return document.querySelector('details.violated').open").await, false);
    click(client, "details.violated > summary").await;
    assert_eq!(run(client, shown).await, true);
    // Its proof opens, with the ledger of both holds.
    let is_open = "return document.querySelector('details.violated details').open";
    assert_eq!(run(client, is_open).await, false);
    click(client, "details.violated details summary").await;
    assert_eq!(run(client, is_open).await, true);
    let steps = run(client, "return document.querySelector('details.violated details ol').textContent").await;
    assert!(steps.as_str().is_some_and(|text| text.contains("process 4: acquire k0 ok")), "{steps}");
    let ledger = run(client, "return document.querySelector('details.violated pre').textContent").await;
    let holds =
        |text: &str| text.matches("granted ").count() == 2 && text.contains("(the acquire was invoked)");
    assert!(ledger.as_str().is_some_and(holds), "{ledger}");
}

async fn the_timeline_zooms_and_moves(client: &Client) {
    let whole = number(client, SPAN).await;
    click(client, "[data-do=in]").await;
    assert!((number(client, SPAN).await - whole / 2.0).abs() < 1.0);
    press(client, "+").await;
    assert!((number(client, SPAN).await - whole / 4.0).abs() < 1.0);
    // The wheel zooms about the pointer: what is under it stays there.
    let under = "const canvas = document.querySelector('canvas'), {from, to} = canvas.dataset;
        const share = (400 - 96) / (canvas.clientWidth - 96 - 12); return Number(from) + (to - from) * share";
    let before = number(client, under).await;
    let wheel = "const canvas = document.querySelector('canvas'), box = canvas.getBoundingClientRect();
        canvas.dispatchEvent(new WheelEvent('wheel', {deltaY: -100, clientX: box.left + 400, clientY: box.top + 100, cancelable: true}))";
    run(client, wheel).await;
    run_frame(client).await;
    assert!(number(client, SPAN).await < whole / 5.0);
    assert!((number(client, under).await - before).abs() < 2.0);
    // Dragging moves, and does not zoom.
    let (from, span) =
        ("return Number(document.querySelector('canvas').dataset.from)", number(client, SPAN).await);
    let left = number(client, from).await;
    drag(client, -120).await;
    assert!(number(client, from).await > left);
    assert!((number(client, SPAN).await - span).abs() < 1.0);
    click(client, "[data-do=whole]").await;
    assert_eq!(number(client, SPAN).await, whole);
}

/// Drags the timeline sideways with the mouse.
async fn drag(client: &Client, by: i64) {
    let canvas = client.find(Locator::Css(".explorer canvas")).await.unwrap();
    let quick = Some(Duration::from_millis(20));
    let mouse = MouseActions::new("mouse".to_owned())
        .then(PointerAction::MoveToElement { element: canvas, duration: quick, x: 0.0, y: 0.0 })
        .then(PointerAction::Down { button: MOUSE_BUTTON_LEFT })
        .then(PointerAction::MoveBy { duration: quick, x: by as f64, y: 0.0 })
        .then(PointerAction::Up { button: MOUSE_BUTTON_LEFT });
    client.perform_actions(mouse).await.expect("the mouse moves");
    run_frame(client).await;
}

async fn a_click_shows_events(client: &Client) {
    // The first violation: both processes with all that they did.
    click(client, "[data-do=next]").await;
    let text = run(client, DETAILS).await.as_str().unwrap_or_default().to_owned();
    assert!(text.contains("granted twice at") && text.contains("read") && text.contains("write"), "{text}");
    let whom = "return document.querySelector('.explorer .around button').textContent";
    let other = run(client, whom).await.as_str().unwrap_or_default().to_owned();
    // From there to the hold of the other one, and from a fault to its story.
    click(client, ".explorer .around button").await;
    let text = run(client, DETAILS).await.as_str().unwrap_or_default().to_lowercase();
    assert!(text.starts_with(&format!("{other} held")), "{text}");
    // With the mouse: a process whose lane has a hold in the middle of what is shown.
    run(client, "document.querySelector('.explorer .details').textContent = ''").await;
    let canvas = client.find(Locator::Css(".explorer canvas")).await.unwrap();
    let (_, _, _, height) = canvas.rectangle().await.unwrap();
    for y in (0..(height / 2.0) as i64).step_by(12) {
        let mouse = MouseActions::new("mouse".to_owned())
            .then(PointerAction::MoveToElement {
                element: canvas.clone(),
                duration: None,
                x: 0.0,
                y: -(y as f64),
            })
            .then(PointerAction::Down { button: MOUSE_BUTTON_LEFT })
            .then(PointerAction::Up { button: MOUSE_BUTTON_LEFT });
        client.perform_actions(mouse).await.expect("the mouse clicks");
        let text = run(client, DETAILS).await;
        if text.as_str().is_some_and(|text| text.contains("held") && text.contains("acquire")) {
            return;
        }
    }
    panic!("no click in the middle of a violation found a hold");
}

async fn light_and_dark_change_places(client: &Client) {
    let ground = "return getComputedStyle(document.body).backgroundColor";
    // Read through a canvas of its own each time, as Chromium wants it.
    let corner = "const pen = document.createElement('canvas').getContext('2d');
        pen.drawImage(document.querySelector('.explorer canvas'), 0, 0); return pen.getImageData(2, 2, 1, 1).data[0]";
    let drawing = "return getComputedStyle(document.querySelector('details.violated svg rect')).fill";
    let light = (run(client, ground).await, number(client, corner).await, run(client, drawing).await);
    run(client, "scrollTo(0, 0)").await;
    click(client, "button.theme").await;
    let dark = (run(client, ground).await, number(client, corner).await, run(client, drawing).await);
    assert!(light.0 != dark.0 && light.1 > 200.0 && dark.1 < 60.0 && light.2 != dark.2, "{light:?} {dark:?}");
    click(client, "button.theme").await;
    assert_eq!(run(client, ground).await, light.0);
}

/// Runs as the example, of other locks and times; one of them was never judged.
fn runs() -> tempfile::TempDir {
    let (results, example) = (tempfile::tempdir().expect("a temporary folder"), example());
    let read = |name: &str| std::fs::read_to_string(example.path().join(name)).expect("the example has it");
    let began = |text: &str| text.lines().find(|line| line.starts_with("started = ")).map(str::to_owned);
    let began = began(&read("run.toml")).expect("it began at some time");
    for number in 0..250 {
        let folder = results.path().join(format!("run-{number}"));
        std::fs::create_dir(&folder).expect("a writable folder");
        let lock = ["lock = \"redlock\"", "lock = \"etcd\""][number % 2];
        let run = read("run.toml").replacen(&began, &format!("started = {}", 1_771_000_000 + number), 1);
        std::fs::write(folder.join("run.toml"), run.replacen("lock = \"redlock\"", lock, 1)).expect("a file");
        if number != 1 {
            std::fs::write(folder.join("verdict.json"), read("verdict.json")).expect("a file");
        }
        if number == 248 {
            std::fs::write(folder.join("report.html"), read("report.html")).expect("a file");
        }
    }
    results
}

const FIRST_RUN: &str = "return document.querySelector('#runs input[name=run]')?.value";
const COUNT: &str = "return document.querySelector('#runs p.note').textContent";

/// Waits until the list begins with this run and counts so many.
async fn list_becomes(client: &Client, first: &str, count: &str) {
    let so =
        format!("return (() => {{ {FIRST_RUN} }})() === '{first}' && (() => {{ {COUNT} }})() === '{count}'");
    wait_until(client, &so).await;
}

#[test]
#[ignore = "runs every night, by .ci/nightly"]
fn runs_can_be_filtered_sorted_compared_and_opened_by_night() {
    let results = runs();
    let server = Server::start(results.path());
    in_browser(async |client| {
        client.goto(&format!("http://{}", server.address)).await.unwrap();
        list_becomes(client, "run-249", "250 runs").await;
        click(client, "select[name=lock] option[value=redlock]").await;
        list_becomes(client, "run-248", "125 runs").await;
        client.find(Locator::Css("input[name=text]")).await.unwrap().send_keys("run-24").await.unwrap();
        list_becomes(client, "run-248", "6 runs").await;
        click(client, "#runs th a.turn").await;
        list_becomes(client, "run-24", "6 runs").await;
        // Chosen ones stay chosen when the list changes.
        click(client, "#runs input[value=run-24]").await;
        client.find(Locator::Css("input[name=text]")).await.unwrap().clear().await.unwrap();
        run(client, "document.querySelector('#filter').requestSubmit()").await;
        list_becomes(client, "run-0", "125 runs").await;
        click(client, ".pages a.turn").await;
        list_becomes(client, "run-200", "125 runs").await;
        click(client, "#runs input[value=run-248]").await;
        click(client, "#chosen button").await;
        wait_until(client, "return document.querySelectorAll('table.beside thead a').length === 2").await;
        click(client, "table.beside thead th:nth-child(3) a").await;
        wait_until(client, "return document.querySelector('a.report') !== null").await;
        click(client, "a.report").await;
        // The report's own scripts run in their sandbox.
        wait_until(client, "return document.querySelector('.explorer')?.hidden === false").await;
        assert_eq!(complaints(client).await, Vec::<String>::new());
    });
}

#[test]
#[ignore = "runs every night, by .ci/nightly"]
fn the_scripts_of_a_report_open_and_load_nothing_by_night() {
    let results = tempfile::tempdir().expect("a temporary folder");
    let folder = results.path().join("run");
    std::fs::create_dir(&folder).expect("a folder");
    std::fs::write(folder.join("other.html"), "<p>other</p>").expect("a file");
    let tries = "<p></p><a href='other.html'>other</a><script>
        const said = [];
        const tried = (name, attempt) => { try { said.push(name + ':' + (attempt() === null)); } catch { said.push(name + ':true'); } };
        tried('window', () => open('other.html'));
        tried('cookie', () => document.cookie);
        tried('store', () => localStorage);
        fetch('/').then(() => said.push('fetch:false'), () => said.push('fetch:true'))
            .then(() => { document.querySelector('p').textContent = said.join(' '); });
        </script>";
    std::fs::write(folder.join("report.html"), tries).expect("a file");
    let server = Server::start(results.path());
    in_browser(async |client| {
        client.goto(&format!("http://{}/files/run/report.html", server.address)).await.unwrap();
        let said = "return document.querySelector('p').textContent";
        wait_until(client, &format!("return (() => {{ {said} }})() !== ''")).await;
        assert_eq!(run(client, said).await, "window:true cookie:true store:true fetch:true");
        // The browser complains of each.
        complaints(client).await;
        click(client, "a").await;
        wait_until(client, "return document.querySelector('p').textContent === 'other'").await;
        assert_eq!(client.windows().await.unwrap().len(), 1, "a link leads on in the same tab");
    });
}

/// A test of some seconds, from when it has begun.
fn going_on(results: &Path) -> Running {
    let args =
        ["test", "--config", "none", "--driver", "local", "--lock", "redis-single", "--time-limit", "25s"];
    let results_argument = results.to_str().expect("a path in UTF-8");
    let args = [&args[..], &["--nemesis", "pause", "--results", results_argument]].concat();
    let running = Running::start(&args);
    await_history(results, "the test begins", |_| true);
    running
}

#[test]
#[ignore = "runs every night, by .ci/nightly"]
fn a_run_that_goes_on_is_shown_as_it_does_by_night() {
    let results = tempfile::tempdir().expect("a temporary folder");
    in_browser(async |client| {
        // Begun when the browser is there, which on a new machine is installed first.
        let test = going_on(results.path());
        let server = Server::start(results.path());
        client.goto(&format!("http://{}", server.address)).await.unwrap();
        wait_until(client, "return document.querySelector('#runs .chip.running') !== null").await;
        click(client, "#runs td a").await;
        const EVENTS: &str =
            "return Number.parseInt(document.querySelector('#live-count')?.textContent || '0')";
        wait_until(client, &format!("return (() => {{ {EVENTS} }})() > 0")).await;
        let seen = number(client, EVENTS).await;
        wait_until(client, &format!("return (() => {{ {EVENTS} }})() > {seen}")).await;
        let shown = run(client, "return document.querySelector('#live-events').textContent").await;
        assert!(shown.as_str().is_some_and(|text| text.contains("acquire")), "{shown}");
        // When it is over the page says what came of it.
        wait_until(client, "return document.querySelector('table.properties') !== null").await;
        wait_until(client, "return document.querySelector('a.report') !== null").await;
        assert_eq!(complaints(client).await, Vec::<String>::new());
        assert!(test.finish().status.code().is_some_and(|code| code <= 1));
    });
}
