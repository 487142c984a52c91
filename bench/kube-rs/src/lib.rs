//! Resource usage of a process, measured as in windlass-bench.

use std::fs;

pub type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

/// Returns the CPU time of the existing threads in seconds.
pub fn cpu() -> Outcome<f64> {
    let mut nanoseconds = 0;
    for task in fs::read_dir("/proc/self/task")? {
        let Ok(text) = fs::read_to_string(task?.path().join("schedstat")) else { continue };
        nanoseconds += text.split_whitespace().next().unwrap_or("0").parse::<u64>()?;
    }
    Ok(nanoseconds as f64 / 1e9)
}

/// Returns a field of the process's status, in bytes.
pub fn memory(field: &str) -> Outcome<u64> {
    let status = fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix(field)).ok_or_else(|| format!("no {field}"))?;
    Ok(line.split_whitespace().next().unwrap_or_default().parse::<u64>()? * 1024)
}

/// Returns the allocator's free memory to the system.
pub fn trim() {
    // SAFETY: takes no pointer, and may be called at any time from any thread.
    unsafe {
        libc::malloc_trim(0);
    }
}

/// Configures the allocator like `keep_little` of windlass-bench.
pub fn keep_little() {
    // SAFETY: takes no pointer, and may be called at any time from any thread.
    unsafe {
        libc::mallopt(libc::M_ARENA_MAX, 1);
        libc::mallopt(libc::M_MMAP_THRESHOLD, 128 << 10);
        libc::mallopt(libc::M_TRIM_THRESHOLD, 128 << 10);
    }
}
