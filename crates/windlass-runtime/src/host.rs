//! The machine that this runs on.

/// What it calls itself, in a cluster the pod's name.
pub(crate) fn name() -> String {
    let known = std::fs::read_to_string("/proc/sys/kernel/hostname").ok().or_else(|| std::env::var("HOSTNAME").ok());
    let known = known.map(|name| name.trim().to_owned()).filter(|name| !name.is_empty());
    known.unwrap_or_else(|| "localhost".to_owned())
}
