//! A headless browser, controlled through a pipe with the DevTools protocol: JSON messages that end with a zero byte.

use std::{
    env, fs,
    io::{BufRead as _, BufReader, Write as _},
    path::PathBuf,
    process::{Child, ChildStdin, Command, Stdio},
    sync::mpsc::{self, Receiver},
    thread,
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use crate::Result;

/// The maximum time for a response.
const PATIENCE: Duration = Duration::from_secs(30);

/// The environment variable with the browser's path.
const BROWSER: &str = "WINDLASS_BROWSER";

/// The names of Chromium's executable.
const NAMES: [&str; 4] = ["chromium", "chromium-browser", "google-chrome", "chrome"];

/// Connects standard input and output to descriptors 3 and 4, which the browser uses as pipes.
const PIPES: &str = r#"exec "$0" "$@" 3<&0 4>&1 0</dev/null 1>/dev/null"#;

/// An installed browser.
#[derive(Debug)]
pub(crate) struct Browser(PathBuf);

/// A running browser. It is stopped, and its data is removed, on drop.
#[derive(Debug)]
pub(crate) struct Running {
    process: Child,
    commands: ChildStdin,
    messages: Receiver<Value>,
    /// Events that arrived during the wait for a response.
    events: Vec<Value>,
    calls: u64,
    profile: PathBuf,
}

/// A page in the browser.
#[derive(Debug)]
pub(crate) struct Page<'b> {
    browser: &'b mut Running,
    session: String,
}

// === impl Browser ===

impl Browser {
    /// Returns the browser of the environment variable, or one in `PATH`.
    pub(crate) fn find() -> Option<Self> {
        let named = env::var_os(BROWSER).map(PathBuf::from);
        let path = env::var_os("PATH").unwrap_or_default();
        let found = || {
            env::split_paths(&path).flat_map(|folder| NAMES.map(|name| folder.join(name))).find(|file| file.is_file())
        };
        named.or_else(found).map(Self)
    }

    pub(crate) fn start(&self) -> Result<Running> {
        let profile = env::temp_dir().join(format!("windlass-browser-{}", std::process::id()));
        fs::create_dir_all(&profile)?;
        let mut process = Command::new("sh")
            .args(["-c", PIPES])
            .arg(&self.0)
            .args(["--headless=new", "--remote-debugging-pipe", "--no-first-run", "--disable-gpu", "--hide-scrollbars"])
            // The browser only opens pages of this repository, and CI runs as root.
            .args(["--no-sandbox", "--disable-dev-shm-usage", "--disable-background-networking"])
            .arg(format!("--user-data-dir={}", profile.display()))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|error| format!("starting {}: {error}", self.0.display()))?;
        let commands = process.stdin.take().ok_or("a process without input")?;
        let output = process.stdout.take().ok_or("a process without output")?;
        let (send, messages) = mpsc::channel();
        // Ends with the browser, or when the receiver is dropped.
        thread::spawn(move || {
            let texts = BufReader::new(output).split(0).map_while(std::result::Result::ok);
            texts
                .filter_map(|text| serde_json::from_slice(&text).ok())
                .try_for_each(|message: Value| send.send(message))
        });
        Ok(Running { process, commands, messages, events: Vec::new(), calls: 0, profile })
    }
}

// === impl Running ===

impl Running {
    /// Opens an address, without waiting for the page to load.
    pub(crate) fn open(&mut self, address: &str) -> Result<Page<'_>> {
        let target = self.call(None, "Target.createTarget", json!({"url": "about:blank"}))?;
        let attach = json!({"targetId": target["targetId"], "flatten": true});
        let session =
            self.call(None, "Target.attachToTarget", attach)?["sessionId"].as_str().unwrap_or_default().to_owned();
        let mut page = Page { browser: self, session };
        for domain in ["Page", "Runtime", "Network", "Log", "Accessibility"] {
            page.call(&format!("{domain}.enable"), json!({}))?;
        }
        page.call("Page.navigate", json!({"url": address}))?;
        Ok(page)
    }

    fn call(&mut self, session: Option<&str>, method: &str, params: Value) -> Result<Value> {
        self.calls += 1;
        let id = self.calls;
        let mut command = json!({"id": id, "method": method, "params": params});
        if let Some(session) = session {
            command["sessionId"] = json!(session);
        }
        self.commands.write_all(format!("{command}\0").as_bytes())?;
        self.commands.flush()?;
        let deadline = Instant::now() + PATIENCE;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let message = self.messages.recv_timeout(left).map_err(|error| format!("{method}: no answer: {error}"))?;
            if message["id"] != id {
                self.events.push(message);
            } else if let Some(error) = message.get("error") {
                return Err(format!("{method}: {error}").into());
            } else {
                return Ok(message["result"].clone());
            }
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // The browser may have exited already, so the error is ignored.
        let _ = self.call(None, "Browser.close", json!({}));
        let _ = self.process.kill();
        let _ = self.process.wait();
        let _ = fs::remove_dir_all(&self.profile);
    }
}

// === impl Page ===

impl Page<'_> {
    pub(crate) fn call(&mut self, method: &str, params: Value) -> Result<Value> {
        self.browser.call(Some(&self.session), method, params)
    }

    /// Evaluates an expression in the page.
    pub(crate) fn value(&mut self, expression: &str) -> Result<Value> {
        let params = json!({"expression": expression, "returnByValue": true});
        let answer = self.call("Runtime.evaluate", params)?;
        match answer.get("exceptionDetails") {
            None => Ok(answer["result"]["value"].clone()),
            Some(details) => Err(format!("{expression}: {details}").into()),
        }
    }

    /// Presses and releases a key: a character or a named key.
    pub(crate) fn press(&mut self, key: &str) -> Result {
        let mut down = json!({"type": "keyDown", "key": key});
        if key.chars().count() == 1 {
            down["text"] = json!(key);
        }
        self.call("Input.dispatchKeyEvent", down)?;
        self.call("Input.dispatchKeyEvent", json!({"type": "keyUp", "key": key}))?;
        Ok(())
    }

    /// Returns the requested addresses.
    pub(crate) fn requested(&self) -> Vec<String> {
        let requests = self.events("Network.requestWillBeSent");
        requests.filter_map(|event| event["params"]["request"]["url"].as_str()).map(str::to_owned).collect()
    }

    /// Returns the page's errors, and the violations of its content security policy.
    pub(crate) fn complaints(&self) -> Vec<String> {
        let thrown =
            self.events("Runtime.exceptionThrown").map(|event| event["params"]["exceptionDetails"].to_string());
        let logged = self.events("Log.entryAdded").map(|event| &event["params"]["entry"]);
        let logged = logged.filter(|entry| entry["level"] == "error" || entry["level"] == "warning");
        thrown.chain(logged.map(|entry| entry["text"].as_str().unwrap_or_default().to_owned())).collect()
    }

    fn events(&self, method: &str) -> impl Iterator<Item = &Value> {
        self.browser.events.iter().filter(move |event| event["method"] == method)
    }
}
