//! A real browser: headless Chromium, controlled by chromedriver over the WebDriver protocol.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};

/// A browser with one tab; the process ends with its last user.
pub struct Browser {
    driver: Child,
    agent: ureq::Agent,
    session: String,
}

/// Finds a program on the search path.
fn program(names: &[&str]) -> Option<PathBuf> {
    let folders: Vec<PathBuf> = std::env::split_paths(&std::env::var_os("PATH")?).collect();
    names.iter().flat_map(|name| folders.iter().map(move |folder| folder.join(name))).find(|path| path.is_file())
}

impl Browser {
    /// Starts a browser, if one is installed.
    pub fn start() -> Option<Self> {
        let driver = program(&["chromedriver"])?;
        let chromium = program(&["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"])?;
        let mut driver =
            Command::new(driver).arg("--port=0").stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let said = BufReader::new(driver.stdout.as_mut().unwrap()).lines().map_while(Result::ok);
        let mut ports = said
            .filter_map(|line| line.rsplit_once("successfully on port ")?.1.trim_end_matches('.').parse::<u16>().ok());
        let port = ports.next().expect("chromedriver tells its port");
        let agent = ureq::Agent::config_builder().http_status_as_error(false).proxy(None).build().into();
        let mut browser = Self { driver, agent, session: format!("http://127.0.0.1:{port}/session") };
        let arguments = [
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-quic",
            "--no-first-run",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
            "--disable-dev-shm-usage",
        ];
        let options = json!({ "binary": chromium, "args": arguments });
        let wanted = json!({
            "browserName": "chrome",
            "goog:chromeOptions": options,
            "goog:loggingPrefs": { "browser": "ALL", "performance": "ALL" },
        });
        let session = browser.post("", &json!({ "capabilities": { "alwaysMatch": wanted } }));
        browser.session += &format!("/{}", session["sessionId"].as_str().expect("a session has a name"));
        Some(browser)
    }

    fn post(&self, command: &str, body: &Value) -> Value {
        let request = self.agent.post(format!("{}{command}", self.session)).content_type("application/json");
        let text = request.send(body.to_string()).unwrap().body_mut().read_to_string().unwrap();
        let mut answer: Value = serde_json::from_str(&text).unwrap();
        assert!(answer["value"]["error"].is_null(), "{command}: {text}");
        answer["value"].take()
    }

    fn devtools(&self, command: &str, parameters: Value) {
        self.post("/goog/cdp/execute", &json!({ "cmd": command, "params": parameters }));
    }

    /// Opens a file in a window of some width, in `light` or `dark`.
    pub fn open(&self, file: &Path, width: usize, scheme: &str) {
        let size = json!({ "width": width, "height": 800, "deviceScaleFactor": 1, "mobile": false });
        self.devtools("Emulation.setDeviceMetricsOverride", size);
        let feature = json!({ "name": "prefers-color-scheme", "value": scheme });
        self.devtools("Emulation.setEmulatedMedia", json!({ "features": [feature] }));
        self.post("/url", &json!({ "url": format!("file://{}", file.display()) }));
    }

    /// Runs a script and returns its result.
    pub fn ask(&self, script: &str) -> Value {
        self.post("/execute/sync", &json!({ "script": script, "args": [] }))
    }

    /// Console messages since the previous call.
    pub fn console(&self) -> Vec<String> {
        let lines = self.post("/se/log", &json!({ "type": "browser" }));
        lines.as_array().unwrap().iter().map(|line| line["message"].to_string()).collect()
    }

    /// Addresses of all files loaded since the previous call.
    pub fn requests(&self) -> Vec<String> {
        let lines = self.post("/se/log", &json!({ "type": "performance" }));
        let events = lines
            .as_array()
            .unwrap()
            .iter()
            .map(|line| -> Value { serde_json::from_str(line["message"].as_str().unwrap()).unwrap() });
        let sent = events.filter(|event| event["message"]["method"] == "Network.requestWillBeSent");
        sent.map(|event| event["message"]["params"]["request"]["url"].as_str().unwrap().to_owned()).collect()
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // Closing the session ends Chromium. Otherwise Chromium would outlive its driver.
        let _ = self.agent.delete(&self.session).call();
        let _ = self.driver.kill();
        let _ = self.driver.wait();
    }
}
