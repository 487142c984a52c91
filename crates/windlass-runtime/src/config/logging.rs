//! Logging: levels, formats and destination.

use std::{collections::BTreeMap, env, str::FromStr};

use serde::{Deserialize, Serialize};

use super::{ConfigurationError, ManagerConfiguration};

/// The usual variable for log levels of Rust programs.
const VARIABLE: &str = "RUST_LOG";

/// `logging`: the log on standard error.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default, expecting = "a map")]
#[non_exhaustive]
pub struct Logging {
    /// The level of targets without a level of their own. Defaults to `info`.
    pub level: LogLevel,
    /// The format of log lines. Defaults to text.
    pub format: LogFormat,
    /// The format of timestamps. Defaults to RFC 3339 with microseconds.
    pub time_encoding: TimeEncoding,
    /// The level at and above which lines carry the source file and line. Defaults to none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub location_level: Option<LogLevel>,
    /// Levels by target, which is a module path: `windlass_client::curl`. The longest match applies.
    pub targets: BTreeMap<String, LogLevel>,
}

/// The minimum severity of logged messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[allow(missing_docs, reason = "the levels are those of tracing")]
pub enum LogLevel {
    Off,
    Error,
    Warn,
    #[default]
    Info,
    Debug,
    Trace,
}

/// The format of a log line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// Text, colored on a terminal.
    #[default]
    Text,
    /// A JSON object.
    Json,
}

/// The format of timestamps, in UTC.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TimeEncoding {
    /// `2026-01-02T15:04:05.123456Z`
    #[default]
    Rfc3339Micro,
    /// `2026-01-02T15:04:05Z`
    Rfc3339,
    /// `2026-01-02T15:04:05.123456789Z`
    Rfc3339Nano,
    /// `2026-01-02T15:04:05.123Z`
    Iso8601,
    /// Seconds since the Unix epoch, with a fraction.
    Epoch,
    /// Milliseconds since the Unix epoch, with a fraction.
    Millis,
    /// Nanoseconds since the Unix epoch.
    Nano,
}

impl ManagerConfiguration {
    /// Returns this configuration with overrides from `RUST_LOG`: a level and levels of targets, for example
    /// `warn,windlass_client=debug`. Returns an error if the variable is invalid. `KUBECONFIG` is read when the program
    /// connects.
    pub fn with_environment(self) -> Result<Self, ConfigurationError> {
        match env::var(VARIABLE) {
            Ok(directives) => self.with_directives(&directives),
            Err(_) => Ok(self),
        }
    }

    pub(super) fn with_directives(mut self, directives: &str) -> Result<Self, ConfigurationError> {
        for directive in directives.split(',').map(str::trim).filter(|directive| !directive.is_empty()) {
            let level = match directive.split_once('=') {
                None => directive.parse().map(|level| self.logging.level = level),
                Some((target, level)) => level.parse().map(|level| {
                    self.logging.targets.insert(target.to_owned(), level);
                }),
            };
            level.map_err(|reason| ConfigurationError::Variable { name: VARIABLE, reason })?;
        }
        Ok(self)
    }
}

impl FromStr for LogFormat {
    type Err = String;

    /// Go programs call the text format `console`.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "text" | "console" => Ok(Self::Text),
            "json" => Ok(Self::Json),
            other => Err(format!("unknown format {other:?}; expected text or json")),
        }
    }
}

impl FromStr for TimeEncoding {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        const ENCODINGS: [(&str, TimeEncoding); 7] = [
            ("epoch", TimeEncoding::Epoch),
            ("millis", TimeEncoding::Millis),
            ("nano", TimeEncoding::Nano),
            ("iso8601", TimeEncoding::Iso8601),
            ("rfc3339", TimeEncoding::Rfc3339),
            ("rfc3339micro", TimeEncoding::Rfc3339Micro),
            ("rfc3339nano", TimeEncoding::Rfc3339Nano),
        ];
        let known = ENCODINGS.iter().find(|(name, _)| text.eq_ignore_ascii_case(name));
        known.map(|(_, encoding)| *encoding).ok_or_else(|| {
            format!("unknown time encoding {text:?}; expected one of {}", ENCODINGS.map(|(name, _)| name).join(", "))
        })
    }
}

impl FromStr for LogLevel {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        const LEVELS: [(&str, LogLevel); 6] = [
            ("off", LogLevel::Off),
            ("error", LogLevel::Error),
            ("warn", LogLevel::Warn),
            ("info", LogLevel::Info),
            ("debug", LogLevel::Debug),
            ("trace", LogLevel::Trace),
        ];
        let known = LEVELS.iter().find(|(name, _)| text.eq_ignore_ascii_case(name));
        known.map(|(_, level)| *level).ok_or_else(|| {
            format!("unknown level {text:?}; expected one of {}", LEVELS.map(|(name, _)| name).join(", "))
        })
    }
}

#[cfg(feature = "logging")]
mod subscriber {
    use std::{
        io::{self, IsTerminal as _},
        sync::Arc,
    };

    use jiff::Timestamp;
    use tracing::{Metadata, Subscriber, level_filters::LevelFilter};
    use tracing_subscriber::{
        Layer,
        filter::{FilterExt as _, Targets, filter_fn},
        fmt,
        fmt::{MakeWriter, format::Writer, time::FormatTime},
        layer::{Filter, SubscriberExt as _},
        registry::LookupSpan,
        util::SubscriberInitExt as _,
    };
    use windlass_api::Clock;

    use super::{ConfigurationError, LogFormat, LogLevel, Logging, TimeEncoding, env};

    /// Formats the timestamp of a line.
    #[derive(Clone, Debug)]
    struct Timer {
        clock: Clock,
        encoding: TimeEncoding,
    }

    /// A writer shared by two layers.
    struct SharedWriter<W>(Arc<W>);

    /// The presence of the source file and line in each line of the log.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    enum Location {
        Shown,
        Hidden,
    }

    impl Logging {
        /// Initializes the global log subscriber. Call it once, at the start of the program. To combine the log with
        /// other layers, use [`Self::layer`]. Returns an error if a subscriber is already set.
        pub fn init(&self) -> Result<(), ConfigurationError> {
            let colors = io::stderr().is_terminal() && env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
            let subscriber = tracing_subscriber::registry().with(self.layer_with(io::stderr, colors));
            subscriber.try_init().map_err(|error| ConfigurationError::Log { source: error.into() })
        }

        /// Returns the `tracing` layer that writes the log.
        pub fn layer<S, W>(&self, writer: W) -> Box<dyn Layer<S> + Send + Sync>
        where
            S: Subscriber + for<'a> LookupSpan<'a>,
            W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
        {
            self.layer_with(writer, false)
        }

        fn layer_with<S, W>(&self, writer: W, colors: bool) -> Box<dyn Layer<S> + Send + Sync>
        where
            S: Subscriber + for<'a> LookupSpan<'a>,
            W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
        {
            let writer = SharedWriter(Arc::new(writer));
            let targets = self.targets.iter().map(|(target, level)| (target, LevelFilter::from(*level)));
            let filter = Targets::new().with_targets(targets).with_default(LevelFilter::from(self.level));
            let Some(level) = self.location_level.map(LevelFilter::from) else {
                return self.lines(writer, colors, Location::Hidden, filter);
            };
            let severe = filter.clone().and(filter_fn(move |line| *line.level() <= level));
            let others = filter.and(filter_fn(move |line| *line.level() > level));
            let severe = self.lines(writer.clone(), colors, Location::Shown, severe);
            vec![severe, self.lines(writer, colors, Location::Hidden, others)].boxed()
        }

        fn lines<S, W>(
            &self,
            writer: SharedWriter<W>,
            colors: bool,
            location: Location,
            filter: impl Filter<S> + Send + Sync + 'static,
        ) -> Box<dyn Layer<S> + Send + Sync>
        where
            S: Subscriber + for<'a> LookupSpan<'a>,
            W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
        {
            let is_shown = location == Location::Shown;
            let timer = Timer { clock: Clock::system(), encoding: self.time_encoding };
            let lines = fmt::layer().with_writer(writer).with_ansi(colors).with_timer(timer);
            let lines = lines.with_file(is_shown).with_line_number(is_shown);
            match self.format {
                LogFormat::Text => lines.with_filter(filter).boxed(),
                LogFormat::Json => lines.json().flatten_event(true).with_filter(filter).boxed(),
            }
        }
    }

    impl<'a, W: MakeWriter<'a>> MakeWriter<'a> for SharedWriter<W> {
        type Writer = W::Writer;

        fn make_writer(&'a self) -> W::Writer {
            self.0.make_writer()
        }

        fn make_writer_for(&'a self, line: &Metadata<'_>) -> W::Writer {
            self.0.make_writer_for(line)
        }
    }

    // Implemented by hand, because `W` need not implement `Clone`.
    impl<W> Clone for SharedWriter<W> {
        fn clone(&self) -> Self {
            Self(Arc::clone(&self.0))
        }
    }

    impl FormatTime for Timer {
        fn format_time(&self, to: &mut Writer<'_>) -> std::fmt::Result {
            to.write_str(&self.encoding.format(self.clock.now()))
        }
    }

    impl TimeEncoding {
        /// Formats a timestamp.
        pub(in crate::config) fn format(self, time: Timestamp) -> String {
            let as_text = |format: &str| time.strftime(format).to_string();
            match self {
                Self::Rfc3339Micro => as_text("%Y-%m-%dT%H:%M:%S%.6fZ"),
                Self::Rfc3339 => as_text("%Y-%m-%dT%H:%M:%SZ"),
                Self::Rfc3339Nano => as_text("%Y-%m-%dT%H:%M:%S%.9fZ"),
                Self::Iso8601 => as_text("%Y-%m-%dT%H:%M:%S%.3fZ"),
                Self::Epoch => format!("{}.{:06}", time.as_second(), time.subsec_nanosecond() / 1_000),
                Self::Millis => {
                    format!("{}.{:06}", time.as_millisecond(), time.subsec_nanosecond() % 1_000_000)
                }
                Self::Nano => time.as_nanosecond().to_string(),
            }
        }
    }

    impl From<LogLevel> for LevelFilter {
        fn from(level: LogLevel) -> Self {
            match level {
                LogLevel::Off => Self::OFF,
                LogLevel::Error => Self::ERROR,
                LogLevel::Warn => Self::WARN,
                LogLevel::Info => Self::INFO,
                LogLevel::Debug => Self::DEBUG,
                LogLevel::Trace => Self::TRACE,
            }
        }
    }
}
