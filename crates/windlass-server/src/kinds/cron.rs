//! The schedules of cron jobs, as far as it can be said whether they make sense.

/// The five fields: from, to, and the names that stand for numbers from the first one on.
const FIELDS: [(u32, u32, &[&str]); 5] = [
    (0, 59, &[]),
    (0, 23, &[]),
    (1, 31, &[]),
    (1, 12, &["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]),
    (0, 6, &["sun", "mon", "tue", "wed", "thu", "fri", "sat"]),
];
const NAMED: [&str; 7] = ["@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly"];

/// What is wrong with a schedule, in the words of the real server's parser.
pub(super) fn check(schedule: &str) -> Result<(), String> {
    let mut rest = schedule;
    if schedule.starts_with("TZ=") || schedule.starts_with("CRON_TZ=") {
        rest = schedule.split_once(' ').map_or("", |(_, rest)| rest.trim());
    }
    if rest.starts_with('@') {
        return match rest.strip_prefix("@every ") {
            Some(duration) => crate::codec::check_duration(duration)
                .map_err(|problem| format!("failed to parse duration {rest}: {problem}")),
            None if NAMED.contains(&rest) => Ok(()),
            None => Err(format!("unrecognized descriptor: {rest}")),
        };
    }
    let fields: Vec<&str> = rest.split_whitespace().collect();
    if fields.len() != FIELDS.len() {
        return Err(format!("expected exactly 5 fields, found {}: [{}]", fields.len(), fields.join(" ")));
    }
    for (field, (first, last, names)) in fields.into_iter().zip(FIELDS) {
        for range in field.split(',').filter(|range| !range.is_empty()) {
            check_range(range, first, last, names)?;
        }
    }
    Ok(())
}

fn check_range(range: &str, first: u32, last: u32, names: &[&str]) -> Result<(), String> {
    let parts: Vec<&str> = range.split('/').collect();
    let ends: Vec<&str> = parts[0].split('-').collect();
    let number = |text: &str| {
        let named = names.iter().zip(first..).find(|(name, _)| text.eq_ignore_ascii_case(name));
        named.map_or_else(|| parse(text), |(_, number)| Ok(number))
    };
    let (low, mut high) = match ends[..] {
        ["*" | "?", ..] => (first, last),
        [only] => (number(only)?, number(only)?),
        [low, high] => (number(low)?, number(high)?),
        _ => return Err(format!("too many hyphens: {range}")),
    };
    let step = match parts[..] {
        [_] => 1,
        [_, step] => {
            let step = parse(step)?;
            if ends.len() == 1 {
                high = last;
            }
            step
        }
        _ => return Err(format!("too many slashes: {range}")),
    };
    if low < first {
        return Err(format!("beginning of range ({low}) below minimum ({first}): {range}"));
    }
    if high > last {
        return Err(format!("end of range ({high}) above maximum ({last}): {range}"));
    }
    if low > high {
        return Err(format!("beginning of range ({low}) beyond end of range ({high}): {range}"));
    }
    if step == 0 {
        return Err(format!("step of range should be a positive number: {range}"));
    }
    Ok(())
}

fn parse(text: &str) -> Result<u32, String> {
    match text.parse::<i64>() {
        Ok(number) if number < 0 => Err(format!("negative number ({number}) not allowed: {text}")),
        Ok(number) => Ok(u32::try_from(number).unwrap_or(u32::MAX)),
        Err(_) => Err(format!("failed to parse int from {text}: strconv.Atoi: parsing {text:?}: invalid syntax")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schedules_make_sense_or_say_why_not() {
        for fine in ["* * * * *", "*/5 0-6 1,15 jan-mar SUN", "@hourly", "@every 1h30m", "0 0 ? * 6"] {
            assert_eq!(check(fine), Ok(()), "{fine}");
        }
        for (wrong, why) in [
            ("* * *", "expected exactly 5 fields, found 3: [* * *]"),
            ("99 * * * *", "end of range (99) above maximum (59): 99"),
            ("* * 0 * *", "beginning of range (0) below minimum (1): 0"),
            ("9-3 * * * *", "beginning of range (9) beyond end of range (3): 9-3"),
            ("*/0 * * * *", "step of range should be a positive number: */0"),
            ("1-2-3 * * * *", "too many hyphens: 1-2-3"),
            ("1/2/3 * * * *", "too many slashes: 1/2/3"),
            ("x * * * *", "failed to parse int from x: strconv.Atoi: parsing \"x\": invalid syntax"),
            ("@sometimes", "unrecognized descriptor: @sometimes"),
        ] {
            assert_eq!(check(wrong).unwrap_err(), why, "{wrong}");
        }
    }
}
