//! Headless Chromium, driven as a user would drive it.

#![allow(dead_code, reason = "each program uses its own part of this")]

use super::waiting::await_until_async;
use fantoccini::wd::{Capabilities, WebDriverCompatibleCommand};
use fantoccini::{Client, ClientBuilder};
use futures_util::FutureExt;
use hyper_util::client::legacy::connect::HttpConnector;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader};
use std::panic::{AssertUnwindSafe, resume_unwind};
use std::process::{Child, Command, Stdio};
use std::sync::Once;

/// Width and height of the window.
const WINDOW: (u32, u32) = (1280, 900);

/// Runs a test in a browser of its own, which is gone afterwards however the test ends.
pub fn in_browser(test: impl AsyncFnOnce(&Client)) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        install();
        let driver = Driver::start();
        let client = driver.client().await;
        let ended = AssertUnwindSafe(test(&client)).catch_unwind().await;
        client.close().await.expect("the browser closes");
        drop(driver);
        ended.unwrap_or_else(|panic| resume_unwind(panic));
    });
}

/// What the pages have written to the console as errors and warnings since this was last asked.
pub async fn complaints(client: &Client) -> Vec<String> {
    let log = client.issue_cmd(ConsoleLog).await.expect("Chromium tells its log");
    let entries = log.as_array().cloned().unwrap_or_default();
    let grave = |entry: &&Value| entry["level"] == "SEVERE" || entry["level"] == "WARNING";
    // Tests beside this one make and remove networks, at which Chromium gives up a request, and the page asks
    // again.
    let messages = entries.iter().filter(grave).map(|entry| entry["message"].to_string());
    messages.filter(|message| !message.contains("ERR_NETWORK_CHANGED")).collect()
}

/// Runs a script in the page and gives what it returns.
pub async fn run(client: &Client, script: &str) -> Value {
    client.execute(script, Vec::new()).await.unwrap_or_else(|error| panic!("{script}: {error}"))
}

/// Asks the page again and again until a script returns true.
pub async fn wait_until(client: &Client, script: &str) {
    await_until_async(script, async || run(client, script).await == true).await;
}

fn is_there(program: &str) -> bool {
    Command::new(program).arg("--version").output().is_ok_and(|output| output.status.success())
}

/// Debian's packages, unless they are there. Tests run side by side, and two installations at once refuse
/// each other.
fn install() {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(install_missing);
}

fn install_missing() {
    let missing = || !is_there("chromium") || !is_there("chromedriver");
    if missing() {
        let packages = "apt-get install -y --no-install-recommends chromium chromium-driver";
        let script =
            format!("export DEBIAN_FRONTEND=noninteractive; {packages} || (apt-get update && {packages})");
        let _ = Command::new("sh").args(["-c", &script]).stdout(Stdio::null()).status();
        assert!(
            !missing(),
            "this test needs Debian's packages chromium and chromium-driver, and cannot install them"
        );
    }
}

/// The program that translates WebDriver for Chromium.
struct Driver {
    child: Child,
    port: u16,
}

impl Driver {
    fn start() -> Driver {
        let mut child = Command::new("chromedriver")
            .arg("--port=0")
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("chromedriver starts");
        let lines = BufReader::new(child.stdout.take().expect("its output")).lines();
        let mut lines = lines.map_while(Result::ok);
        let port = lines
            .find_map(|line| line.split_once("successfully on port ")?.1.trim_end_matches('.').parse().ok());
        let port = port.expect("chromedriver says on which port it listens");
        // Whatever else it says must not fill the pipe.
        std::thread::spawn(move || lines.for_each(drop));
        Driver { child, port }
    }

    async fn client(&self) -> Client {
        let (width, height) = WINDOW;
        let capabilities = json!({
            "goog:chromeOptions": {
                "args": [
                    "--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu",
                    "--force-prefers-reduced-motion", format!("--window-size={width},{height}"),
                ]
            },
            "goog:loggingPrefs": {"browser": "ALL"},
        });
        let capabilities: Capabilities = serde_json::from_value(capabilities).expect("an object");
        ClientBuilder::new(HttpConnector::new())
            .capabilities(capabilities)
            .connect(&format!("http://127.0.0.1:{}", self.port))
            .await
            .expect("Chromium starts")
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Chromium's own command for what was written to the console.
#[derive(Debug)]
struct ConsoleLog;

impl WebDriverCompatibleCommand for ConsoleLog {
    fn endpoint(&self, base: &url::Url, session: Option<&str>) -> Result<url::Url, url::ParseError> {
        base.join(&format!("session/{}/se/log", session.unwrap_or_default()))
    }

    fn method_and_body(&self, _: &url::Url) -> (http::Method, Option<String>) {
        (http::Method::POST, Some(json!({"type": "browser"}).to_string()))
    }
}
