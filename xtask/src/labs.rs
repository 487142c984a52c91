//! Runs every program of `examples/`, and `windlass proxy`, with `windlass up`, and compares their output with the
//! README. Programs that start their own cluster run without another.

use std::{
    env,
    io::{BufRead as _, BufReader, Read, Write as _},
    net::TcpStream,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::mpsc::{self, Receiver},
    thread,
    time::{Duration, Instant},
};

use crate::{Result, cargo::cargo, embedded::Embedded, upstream::root};

/// The timeout of a lab. It is long, because it only distinguishes slow labs from broken ones.
const PATIENCE: Duration = Duration::from_mins(1);

/// A program that exits, and its expected output.
struct Lab {
    program: &'static str,
    arguments: &'static [&'static str],
    prints: &'static [&'static str],
    when: When,
}

/// The time at which a lab must succeed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum When {
    /// On the first run.
    Now,
    /// After the controllers have acted: it is repeated until then.
    Soon,
}

const LABS: &[Lab] = &[
    // A pod needs the service account that a controller creates in each namespace.
    Lab { program: "test_pod", arguments: &["create"], prints: &["pod default/test created"], when: When::Soon },
    Lab { program: "rest_client", arguments: &[], prints: &["default/test was created at 20"], when: When::Now },
    Lab {
        program: "clientset_pod",
        arguments: &[],
        prints: &["name:   test", "image:  nginx (test)"],
        when: When::Now,
    },
    Lab { program: "clientset_running", arguments: &[], prints: &["1 of 1 pods are running"], when: When::Soon },
    Lab {
        program: "clientset_overview",
        arguments: &[],
        prints: &["  default/test: Running on \"node-", ": ready True, kubelet \""],
        when: When::Soon,
    },
    Lab {
        program: "dynamic_client",
        arguments: &["pods"],
        prints: &["/v1, Resource=pods:", "  default/test, with "],
        when: When::Now,
    },
    Lab {
        program: "discovery_client",
        arguments: &[],
        prints: &["server v1.", "  apps/v1", "  pods (Pod): ", "  deployments.apps (Deployment): "],
        when: When::Now,
    },
];

/// Programs that start their own cluster.
const ALONE: &[Lab] = &[
    Lab {
        program: "ingress-manager",
        arguments: &[],
        prints: &[
            "seen  the Ingress web: shop.example.com to port 80\n",
            "seen  it is there again\n",
            "seen  event IngressTaken: ",
        ],
        when: When::Now,
    },
    Lab {
        program: "registry-sync",
        arguments: &[],
        prints: &[
            "seen  the registry has shop/web at [",
            "seen  the registry does not have shop/web\n",
            "seen  the registry does not have the namespace\n",
        ],
        when: When::Now,
    },
    Lab {
        program: "evolution",
        arguments: &[],
        prints: &["| 10 + 10 | informers | 0 | 4 | 68 | 72 |", "| 10 + 10 | shared | 0 | 3 | 68 | 71 |"],
        when: When::Now,
    },
];

/// A program that prints the changes of the pod `test` until it is stopped.
struct Watcher {
    program: &'static str,
    /// Printed after the existing pods are listed.
    ready: &'static str,
    /// Printed in this order after the deletion of the pod.
    deleted: &'static [&'static str],
    /// Printed in this order after the pod is created again.
    created: &'static [&'static str],
}

const WATCHERS: &[Watcher] = &[
    Watcher {
        program: "watch_pods",
        ready: "PRESENT test",
        deleted: &["DELETED test"],
        created: &["ADDED test Pending", "MODIFIED test Running"],
    },
    Watcher {
        program: "informer",
        ready: "SYNCED 1 pods",
        deleted: &["DELETED default/test"],
        created: &["ADDED default/test", "UPDATED default/test: Pending -> Running"],
    },
    Watcher {
        program: "informer_workqueue",
        ready: "SYNCED 1 pods, 3 workers",
        deleted: &["default/test is gone"],
        created: &["default/test is Running"],
    },
];

/// `windlass` is the binary to test.
pub(crate) fn run(windlass: &Path) -> Result {
    let programs = build()?;
    let started = Instant::now();
    let embedded = Embedded::start(windlass, &[])?;
    let kubeconfig = embedded.kubeconfig();
    let command = |program: &Path, arguments: &[&str]| {
        let mut command = Command::new(program);
        command.args(arguments).env("KUBECONFIG", &kubeconfig);
        command
    };
    let example = |program: &str, arguments: &[&str]| command(&programs.join(program), arguments);

    for lab in LABS {
        lab.run(|| example(lab.program, lab.arguments))?;
        println!("{} {}: passed", lab.program, lab.arguments.join(" "));
    }
    watched(example, command(windlass, &["proxy", "--port", "0"]))?;
    for watcher in WATCHERS {
        println!("{}: passed", watcher.program);
    }
    println!("`curl` through windlass proxy: passed");
    let labs = LABS.len() + WATCHERS.len() + 1;
    println!("{labs} labs against windlass up in {} s", started.elapsed().as_secs());
    for lab in ALONE {
        lab.run(|| Command::new(programs.join(lab.program)))?;
        println!("{}, in a cluster of its own: passed", lab.program);
    }
    Ok(())
}

/// A test of each package with labs: cargo builds the programs for it.
const TESTS: [&str; 8] = ["--test", "labs", "--test", "ingresses", "--test", "requests", "--test", "sync"];

/// Builds the programs with the flags of `cargo test --workspace`, so CI compiles them once, and returns their
/// directory.
fn build() -> Result<PathBuf> {
    let status = cargo().args(["test", "--workspace", "--locked", "--no-run", "--quiet"]).args(TESTS).status()?;
    if !status.success() {
        return Err(format!("building the programs of examples/ failed ({status})").into());
    }
    Ok(env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from).join("debug"))
}

/// Deletes and creates a pod while the programs and a watch through the proxy follow it. All of them must print the
/// changes.
fn watched(example: impl Fn(&str, &[&str]) -> Command, mut proxy: Command) -> Result {
    let mut watching = Vec::new();
    for watcher in WATCHERS {
        let mut program = Printing::start(&mut example(watcher.program, &[]))?;
        program.wait_for(watcher.ready)?;
        watching.push((watcher, program));
    }
    let mut proxy = Printing::start(&mut proxy)?;
    let line = proxy.wait_for("Starting to serve on ")?;
    let address = line.rsplit(' ').next().unwrap_or_default();
    let mut curl = Printing::get(address, "/api/v1/namespaces/default/pods?watch=true")?;
    curl.wait_for(r#"{"type":"ADDED","#)?;

    Printing::start(&mut example("test_pod", &["delete"]))?.run_to_end()?;
    for (watcher, program) in &mut watching {
        program.wait_for_all(watcher.deleted)?;
    }
    curl.wait_for(r#"{"type":"DELETED","#)?;
    Printing::start(&mut example("test_pod", &["create"]))?.run_to_end()?;
    for (watcher, program) in &mut watching {
        program.wait_for_all(watcher.created)?;
    }
    curl.wait_for_all(&[r#"{"type":"ADDED","#, r#""phase":"Running""#])
}

/// A source of lines: a process, which is killed on drop, or a stream.
struct Printing {
    name: String,
    process: Option<Child>,
    lines: Receiver<String>,
    /// The lines so far, for error messages.
    printed: String,
    deadline: Instant,
}

// === impl Lab ===

impl Lab {
    fn run(&self, command: impl Fn() -> Command) -> Result {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let outcome = Printing::start(&mut command())?.run_to_end().and_then(|printed| self.check(&printed));
            match outcome {
                Err(_) if self.when == When::Soon && Instant::now() < deadline => {
                    thread::sleep(Duration::from_millis(100));
                }
                outcome => return outcome,
            }
        }
    }

    fn check(&self, printed: &str) -> Result {
        match self.prints.iter().find(|expected| !printed.contains(**expected)) {
            None => Ok(()),
            Some(missing) => Err(format!("{} does not print {missing:?} but:\n{printed}", self.program).into()),
        }
    }
}

// === impl Printing ===

impl Printing {
    fn start(command: &mut Command) -> Result<Self> {
        let name = format!("{command:?}");
        let mut process = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|error| format!("starting {name}: {error}"))?;
        let output = process.stdout.take().ok_or("a process without output")?;
        Ok(Self::reading(name, Some(process), output))
    }

    /// Sends a request like `curl -0 http://ADDRESS/PATH`. HTTP/1.0 has no chunks, so lines are those of the server.
    fn get(address: &str, path: &str) -> Result<Self> {
        let mut stream = TcpStream::connect(address).map_err(|error| format!("connecting to {address}: {error}"))?;
        write!(stream, "GET {path} HTTP/1.0\r\nHost: localhost\r\n\r\n")?;
        let mut answer = Self::reading(format!("GET {path}"), None, stream);
        answer.wait_for("200 OK")?;
        Ok(answer)
    }

    fn reading(name: String, process: Option<Child>, output: impl Read + Send + 'static) -> Self {
        let (send, lines) = mpsc::channel();
        thread::spawn(move || {
            // Ends with the output, or when the receiver is dropped.
            BufReader::new(output).lines().map_while(std::result::Result::ok).try_for_each(|line| send.send(line))
        });
        Self { name, process, lines, printed: String::new(), deadline: Instant::now() + PATIENCE }
    }

    /// Returns the next line that contains `text`.
    fn wait_for(&mut self, text: &str) -> Result<String> {
        while let Some(line) = self.next() {
            if line.contains(text) {
                return Ok(line);
            }
        }
        Err(format!("{} has not printed {text:?} but:\n{}", self.name, self.printed).into())
    }

    /// Waits for lines that contain these texts, in this order.
    fn wait_for_all(&mut self, texts: &[&str]) -> Result {
        texts.iter().try_for_each(|text| self.wait_for(text).map(drop))
    }

    /// Returns all output until the process exits. Returns an error if it fails.
    fn run_to_end(mut self) -> Result<String> {
        // The lines end when the process exits.
        while self.next().is_some() {}
        let Some(process) = &mut self.process else { return Ok(std::mem::take(&mut self.printed)) };
        if Instant::now() >= self.deadline {
            return Err(format!("{} has not ended in {} s", self.name, PATIENCE.as_secs()).into());
        }
        if process.wait()?.success() {
            return Ok(std::mem::take(&mut self.printed));
        }
        if let Some(error) = &mut process.stderr {
            error.read_to_string(&mut self.printed)?;
        }
        Err(format!("{} failed:\n{}", self.name, self.printed).into())
    }

    /// Returns the next line, or `None` at the end or after the timeout.
    fn next(&mut self) -> Option<String> {
        let line = self.lines.recv_timeout(self.deadline.saturating_duration_since(Instant::now())).ok()?;
        self.printed.push_str(&line);
        self.printed.push('\n');
        Some(line)
    }
}

impl Drop for Printing {
    fn drop(&mut self) {
        if let Some(process) = &mut self.process {
            // The process may have exited already, so the error is ignored.
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_program_of_the_examples_is_run() {
        let programs = std::fs::read_dir(root().join("examples/src/bin")).unwrap();
        for program in programs.map(|entry| entry.unwrap().path()) {
            let program = program.file_stem().unwrap().to_str().unwrap();
            let ends = LABS.iter().any(|lab| lab.program == program);
            let watches = WATCHERS.iter().any(|watcher| watcher.program == program);
            assert!(ends || watches, "{program} is not among the labs");
        }
    }

    #[test]
    fn missing_output_and_failed_commands_fail() {
        let lab = Lab { program: "echo", arguments: &["a"], prints: &["b"], when: When::Now };
        assert!(lab.check("a b").is_ok());
        assert!(lab.check("a").unwrap_err().to_string().contains("does not print \"b\""));
        let failing = Printing::start(Command::new("cargo").arg("no-such-command")).unwrap();
        assert!(failing.run_to_end().unwrap_err().to_string().contains("no such command"));
    }
}
