//! Timestamps and durations. Time zones are UTC and offsets from UTC; named zones are not supported.

use jiff::{SignedDuration, Timestamp, tz};

use crate::{
    cost::Cost,
    fault::EvalFault,
    function::Row,
    library::{conversion, text},
    meter::Meter,
    value::{Value, go_duration},
};

/// The accessors of timestamps (in UTC or a given zone) and of durations (converted to a unit).
macro_rules! parts {
    ($($name:literal $part:expr),*) => {
        &[
            ("duration(duration) duration", Cost::Flat, |_, args| Ok(args[0].clone())),
            ("duration(string) duration", Cost::Flat, |_, args| {
                go_duration(text(args, 0)?).map_or_else(|| conversion("string", "google.protobuf.Duration"), |length| Ok(Value::Duration(length)))
            }),
            ("timestamp(timestamp) timestamp", Cost::Flat, |_, args| Ok(args[0].clone())),
            ("timestamp(string) timestamp", Cost::Flat, |_, args| {
                text(args, 0)?.parse().map_or_else(|_| conversion("string", "google.protobuf.Timestamp"), |time| Ok(Value::Timestamp(time)))
            }),
            ("timestamp(int) timestamp", Cost::Flat, |_, args| {
                Timestamp::from_second(super::int(args, 0)?).map(Value::Timestamp).map_err(|_| overflow())
            }),
            ("duration::getHours() int", Cost::Flat, |_, args| Ok(Value::Int(length(&args[0])? / 3_600_000_000_000))),
            ("duration::getMinutes() int", Cost::Flat, |_, args| Ok(Value::Int(length(&args[0])? / 60_000_000_000))),
            ("duration::getSeconds() int", Cost::Flat, |_, args| Ok(Value::Int(length(&args[0])? / 1_000_000_000))),
            ("duration::getMilliseconds() int", Cost::Flat, |_, args| Ok(Value::Int(length(&args[0])? / 1_000_000 % 1_000))),
            $(
                (concat!("timestamp::", $name, "() int"), Cost::Flat, |_, args| part(args, $part)),
                (concat!("timestamp::", $name, "(string) int"), Cost::Flat, |_, args| part(args, $part)),
            )*
        ]
    };
}

pub(super) const TABLE: &[Row] = parts![
    "getFullYear" | time | i64::from(time.year()),
    "getMonth" | time | i64::from(time.month()) - 1,
    "getDate" | time | i64::from(time.day()),
    "getDayOfMonth" | time | i64::from(time.day()) - 1,
    "getDayOfWeek" | time | i64::from(time.weekday().to_sunday_zero_offset()),
    "getDayOfYear" | time | i64::from(time.day_of_year()) - 1,
    "getHours" | time | i64::from(time.hour()),
    "getMinutes" | time | i64::from(time.minute()),
    "getSeconds" | time | i64::from(time.second()),
    "getMilliseconds" | time | i64::from(time.millisecond())
];

fn overflow() -> EvalFault {
    EvalFault::error("timestamp overflow")
}

fn length(value: &Value<'_>) -> Result<i64, EvalFault> {
    match value {
        Value::Duration(nanoseconds) => Ok(*nanoseconds),
        _ => Err(EvalFault::error("no such overload")),
    }
}

fn part<'v>(args: &[Value<'v>], of: fn(&jiff::civil::DateTime) -> i64) -> Result<Value<'v>, EvalFault> {
    let Value::Timestamp(time) = &args[0] else { return Err(EvalFault::error("no such overload")) };
    let zone = match args.get(1) {
        None => tz::Offset::UTC,
        Some(Value::Text(zone)) => {
            offset(zone).ok_or_else(|| EvalFault::error(format!("unknown time zone {}", &**zone)))?
        }
        Some(_) => return Err(EvalFault::error("no such overload")),
    };
    Ok(Value::Int(of(&zone.to_datetime(*time))))
}

/// Parses `UTC` or an offset in hours and minutes, such as `+02:00` or `-8:30`.
fn offset(zone: &str) -> Option<tz::Offset> {
    if matches!(zone, "" | "UTC" | "Etc/UTC" | "GMT") {
        return Some(tz::Offset::UTC);
    }
    let (sign, rest) = match zone.strip_prefix('-') {
        Some(rest) => (-1, rest),
        None => (1, zone.strip_prefix('+').unwrap_or(zone)),
    };
    let (hours, minutes) = rest.split_once(':')?;
    let seconds =
        hours.parse::<i32>().ok()?.checked_mul(3_600)?.checked_add(minutes.parse::<i32>().ok()?.checked_mul(60)?)?;
    tz::Offset::from_seconds(sign * seconds).ok()
}

pub(super) fn add<'v>(_: &Meter, args: &[Value<'v>]) -> Result<Value<'v>, EvalFault> {
    match (&args[0], &args[1]) {
        (Value::Timestamp(time), Value::Duration(length)) | (Value::Duration(length), Value::Timestamp(time)) => {
            time.checked_add(SignedDuration::from_nanos(*length)).map(Value::Timestamp).map_err(|_| overflow())
        }
        (Value::Duration(a), Value::Duration(b)) => {
            a.checked_add(*b).map(Value::Duration).ok_or_else(|| EvalFault::error("duration overflow"))
        }
        _ => Err(EvalFault::error("no such overload")),
    }
}

pub(super) fn subtract<'v>(_: &Meter, args: &[Value<'v>]) -> Result<Value<'v>, EvalFault> {
    let too_long = || EvalFault::error("duration overflow");
    match (&args[0], &args[1]) {
        (Value::Timestamp(time), Value::Duration(length)) => {
            time.checked_sub(SignedDuration::from_nanos(*length)).map(Value::Timestamp).map_err(|_| overflow())
        }
        (Value::Timestamp(a), Value::Timestamp(b)) => {
            i64::try_from(a.duration_since(*b).as_nanos()).map(Value::Duration).map_err(|_| too_long())
        }
        (Value::Duration(a), Value::Duration(b)) => a.checked_sub(*b).map(Value::Duration).ok_or_else(too_long),
        _ => Err(EvalFault::error("no such overload")),
    }
}
