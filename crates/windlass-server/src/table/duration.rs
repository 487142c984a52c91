//! Durations in Kubernetes' format, with at most two units.

use jiff::Timestamp;

/// Returns the time since `then`: `5s`, `3m20s`, `26h`, `2d3h`. Returns `<invalid>` for a time in the future, except
/// for two seconds of clock difference.
pub(super) fn since(then: Timestamp, now: Timestamp) -> String {
    format_millis(now.as_millisecond() - then.as_millisecond())
}

/// Formats a duration in milliseconds.
pub(super) fn format_millis(milliseconds: i64) -> String {
    // Go truncates toward zero, as this division does.
    let seconds = milliseconds / 1000;
    let (minutes, hours) = (seconds / 60, seconds / 3600);
    let (days, years) = (hours / 24, hours / (24 * 365));
    match seconds {
        ..-1 => "<invalid>".to_owned(),
        -1 => "0s".to_owned(),
        0..120 => format!("{seconds}s"),
        _ if minutes < 10 => two_units(minutes, "m", seconds % 60, "s"),
        _ if minutes < 180 => format!("{minutes}m"),
        _ if hours < 8 => two_units(hours, "h", minutes % 60, "m"),
        _ if hours < 48 => format!("{hours}h"),
        _ if days < 8 => two_units(days, "d", hours % 24, "h"),
        _ if years < 2 => format!("{days}d"),
        _ if years < 8 => two_units(years, "y", days % 365, "d"),
        _ => format!("{years}y"),
    }
}

fn two_units(large: i64, unit: &str, small: i64, small_unit: &str) -> String {
    if small == 0 { format!("{large}{unit}") } else { format!("{large}{unit}{small}{small_unit}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_show_significant_units() {
        let (minute, hour, day) = (60, 3600, 86400);
        for (seconds, expected) in [
            (-5, "<invalid>"),
            (-1, "0s"),
            (0, "0s"),
            (119, "119s"),
            (120, "2m"),
            (125, "2m5s"),
            (10 * minute + 30, "10m"),
            (179 * minute, "179m"),
            (3 * hour, "3h"),
            (7 * hour + 30 * minute, "7h30m"),
            (47 * hour, "47h"),
            (48 * hour, "2d"),
            (7 * day + hour, "7d1h"),
            (8 * day + hour, "8d"),
            (729 * day, "729d"),
            (730 * day, "2y"),
            (731 * day, "2y1d"),
            (3000 * day, "8y"),
        ] {
            assert_eq!(format_millis(seconds * 1000), expected, "{seconds} seconds");
        }
    }
}
