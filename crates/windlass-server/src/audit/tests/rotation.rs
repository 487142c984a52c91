//! The log file.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use parking_lot::Mutex;
use serde_json::{Value, json};
use windlass_api::Clock;

use super::{policy, send};
use crate::{
    AuditConfiguration, AuditFormat, AuditLogOptions, Server,
    audit::{backend::Sink, event::Event, log::LogSink, policy::Stage, queue::Entry, rotation::RotatingFile},
};

fn options(path: PathBuf) -> AuditLogOptions {
    AuditLogOptions { path, ..AuditLogOptions::default() }
}

fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).unwrap();
    let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// Waits until the thread for rotated files has finished its work.
async fn wait_for_names(directory: &Path, expected: &[&str]) {
    let deadline = Duration::from_secs(20);
    let step = Duration::from_millis(5);
    for _ in 0..deadline.as_millis() / step.as_millis() {
        if names(directory) == expected {
            return;
        }
        tokio::time::sleep(step).await;
    }
    panic!("{:?} instead of {expected:?}", names(directory));
}

/// Returns a file with a clock that the test sets.
fn file(options: &AuditLogOptions, time: &Arc<Mutex<jiff::Timestamp>>) -> RotatingFile {
    let mut file = RotatingFile::open(options).unwrap();
    let time = Arc::clone(time);
    file.set_clock(Clock::from_fn(move || *time.lock()));
    file
}

#[tokio::test]
async fn request_writes_only_small_events_that_need_no_rotation() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("audit.log");
    let sink = LogSink::open(&AuditLogOptions { max_size: 1, ..options(path.clone()) }).unwrap();
    let event = |length: usize| {
        let event = Event { user_agent: "x".repeat(length), ..Event::default() };
        event.render(Stage::ResponseComplete, jiff::Timestamp::UNIX_EPOCH, true)
    };
    assert!(sink.write_now(&event(10)).is_none(), "the file must be opened first");
    let queued = Entry { event: Arc::new(event(10)), audit_id: "id".into(), written: None };
    assert!(sink.send(&[queued]).await.lost.is_empty());
    sink.write_now(&event(20)).unwrap().unwrap();
    assert!(sink.write_now(&event(40 << 10)).is_none(), "large events are queued");
    let lines = fs::read_to_string(&path).unwrap();
    assert_eq!(lines.lines().map(|line| line.matches('x').count()).collect::<Vec<_>>(), [10, 20]);
    let mut written = 0;
    while let Some(result) = sink.write_now(&event(30 << 10)) {
        result.unwrap();
        written += 1;
    }
    assert_eq!(written, 33, "the next event does not fit into a megabyte");
}

#[test]
fn file_is_rotated_before_it_exceeds_its_size() {
    let directory = tempfile::tempdir().unwrap();
    let time = Arc::new(Mutex::new("2026-01-02T03:04:05.678Z".parse().unwrap()));
    let path = directory.path().join("deep/er/audit.log");
    let mut log = self::file(&AuditLogOptions { max_size: 1, ..options(path.clone()) }, &time);
    let line = vec![b'x'; 600 << 10];
    log.write(&line).unwrap();
    log.write(&line).unwrap();
    let directory = path.parent().unwrap();
    assert_eq!(names(directory), ["audit-2026-01-02T03-04-05.678.log", "audit.log"]);
    assert_eq!(fs::metadata(&path).unwrap().len(), line.len() as u64);
    let error = log.write(&vec![b'x'; (1 << 20) + 1]).unwrap_err().to_string();
    assert_eq!(error, "write length 1048577 exceeds maximum file size 1048576");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::metadata(directory).unwrap().permissions().mode() & 0o777, 0o700);
    }
    // Another server continues the file, unless its line does not fit.
    *time.lock() = "2026-01-03T00:00:00Z".parse().unwrap();
    let mut next = self::file(&AuditLogOptions { max_size: 1, ..options(path.clone()) }, &time);
    next.write(b"small\n").unwrap();
    assert_eq!(names(directory).len(), 2);
    next.write(&line).unwrap();
    assert_eq!(names(directory).len(), 3);
}

#[test]
fn rotations_in_one_millisecond_keep_all_files() {
    let directory = tempfile::tempdir().unwrap();
    let time = Arc::new(Mutex::new("2026-01-02T03:04:05.999Z".parse().unwrap()));
    let compressed = "audit-2026-01-02T03-04-06.000.log.gz";
    fs::write(directory.path().join(compressed), "old").unwrap();
    let mut log = self::file(&AuditLogOptions { max_size: 1, ..options(directory.path().join("audit.log")) }, &time);
    for byte in *b"abc" {
        log.write(&vec![byte; 600 << 10]).unwrap();
    }
    let files = ["audit-2026-01-02T03-04-05.999.log", compressed, "audit-2026-01-02T03-04-06.001.log", "audit.log"];
    assert_eq!(names(directory.path()), files);
    let first = files.map(|file| fs::read(directory.path().join(file)).unwrap()[0]);
    assert_eq!(first, *b"aobc");
}

#[test]
fn line_after_an_incomplete_one_is_complete() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("audit.log");
    let time = Arc::new(Mutex::new("2026-01-02T03:04:05.678Z".parse().unwrap()));
    for (before, after) in [("", "next\n"), ("line\n", "line\nnext\n"), ("line\nincompl", "line\nincompl\nnext\n")] {
        fs::write(&path, before).unwrap();
        self::file(&options(path.clone()), &time).write(b"next\n").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), after);
    }
}

#[tokio::test]
async fn old_and_surplus_files_are_removed_and_others_compressed() {
    let directory = tempfile::tempdir().unwrap();
    let time = Arc::new(Mutex::new("2026-01-10T00:00:00Z".parse().unwrap()));
    let path = directory.path().join("audit.log");
    for name in [
        "audit-2026-01-01T00-00-00.000.log",
        "audit-2026-01-07T00-00-00.000.log.gz",
        "audit-2026-01-08T00-00-00.000.log",
        "audit-2026-01-09T00-00-00.000.log",
        "audit-of-somebody.log",
        "other-2026-01-01T00-00-00.000.log",
    ] {
        fs::write(directory.path().join(name), "old").unwrap();
    }
    let retention = AuditLogOptions { max_size: 1, max_age: 5, max_backups: 2, compress: true, ..options(path) };
    let mut log = self::file(&retention, &time);
    log.write(b"line\n").unwrap();
    let expected = [
        "audit-2026-01-08T00-00-00.000.log.gz",
        "audit-2026-01-09T00-00-00.000.log.gz",
        "audit-of-somebody.log",
        "audit.log",
        "other-2026-01-01T00-00-00.000.log",
    ];
    wait_for_names(directory.path(), &expected).await;
    let compressed = fs::File::open(directory.path().join(expected[1])).unwrap();
    let text = std::io::read_to_string(flate2::read::GzDecoder::new(compressed)).unwrap();
    assert_eq!(text, "old");
}

#[tokio::test]
async fn events_are_lines_in_both_formats() {
    let directory = tempfile::tempdir().unwrap();
    let [json, legacy] = ["json.log", "legacy.log"].map(|name| directory.path().join(name));
    for (path, format) in [(&json, AuditFormat::Json), (&legacy, AuditFormat::Legacy)] {
        let audit = AuditConfiguration::new(policy(json!([{"level": "Metadata"}])));
        let audit = audit.with_log(&AuditLogOptions { format, ..options(path.clone()) }).unwrap();
        let clock = Clock::from_fn(|| "2026-01-02T03:04:05.678900Z".parse().unwrap());
        let server = Server::builder().clock(clock).audit(audit).build();
        // The log is complete when the response arrives, because the default mode is blocking.
        send(&server, "GET", "/api/v1/namespaces/a/pods", Value::Null).await;
    }
    let text = fs::read_to_string(&json).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 2);
    let start = r#"{"kind":"Event","apiVersion":"audit.k8s.io/v1","level":"Metadata","auditID":""#;
    assert!(lines.iter().all(|line| line.starts_with(start)), "{text}");
    let event: Value = serde_json::from_str(lines[1]).unwrap();
    assert_eq!(event["stageTimestamp"], "2026-01-02T03:04:05.678900Z");
    let text = fs::read_to_string(&legacy).unwrap();
    let (id, rest) = text.lines().nth(1).unwrap().split_once(" stage=").unwrap();
    assert!(id.starts_with("2026-01-02T03:04:05.6789Z AUDIT: id=\""), "{id}");
    let expected = "\"ResponseComplete\" ip=\"<unknown>\" method=\"list\" user=\"admin\" \
                    groups=\"\\\"system:masters\\\",\\\"system:authenticated\\\"\" as=\"<self>\" asgroups=\"<lookup>\" \
                    user-agent=\"\" namespace=\"a\" uri=\"/api/v1/namespaces/a/pods\" response=\"200\"";
    assert_eq!(rest, expected);
}

#[tokio::test]
async fn unwritable_log_is_counted_and_does_not_fail_requests() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("logs/audit.log");
    let audit = AuditConfiguration::new(policy(json!([{"level": "Metadata"}])));
    let server = Server::builder().audit(audit.with_log(&options(path)).unwrap()).build();
    fs::remove_dir_all(directory.path().join("logs")).unwrap();
    assert_eq!(send(&server, "GET", "/version", Value::Null).await.status(), 200);
    let metrics = send(&server, "GET", "/metrics", Value::Null).await;
    let text = String::from_utf8_lossy(metrics.body()).into_owned();
    assert!(text.contains("apiserver_audit_error_total{plugin=\"log\"} "), "{text}");
    let missing = AuditConfiguration::new(policy(json!([{"level": "Metadata"}])));
    let error = missing.with_log(&options("/dev/null/audit.log".into())).unwrap_err().to_string();
    assert_eq!(error, "cannot open the audit log /dev/null/audit.log");
}
