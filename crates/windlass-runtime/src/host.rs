//! The machine that this runs on, and the process on it.

/// What it calls itself, in a cluster the pod's name.
pub(crate) fn name() -> String {
    let known = std::fs::read_to_string("/proc/sys/kernel/hostname").ok().or_else(|| std::env::var("HOSTNAME").ok());
    let known = known.map(|name| name.trim().to_owned()).filter(|name| !name.is_empty());
    known.unwrap_or_else(|| "localhost".to_owned())
}

/// What the process has in memory, where the system tells.
pub(crate) fn resident_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok().map(|kibibytes| kibibytes * 1024)
}
