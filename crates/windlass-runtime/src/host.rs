//! Properties of the host and of this process.

/// Returns the host name. In a cluster this is the pod's name.
pub(crate) fn name() -> String {
    let known = std::fs::read_to_string("/proc/sys/kernel/hostname").ok().or_else(|| std::env::var("HOSTNAME").ok());
    let known = known.map(|name| name.trim().to_owned()).filter(|name| !name.is_empty());
    known.unwrap_or_else(|| "localhost".to_owned())
}

/// Returns the process's resident memory in bytes, if the operating system reports it.
#[cfg(feature = "console")]
pub(crate) fn resident_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok().map(|kibibytes| kibibytes * 1024)
}
