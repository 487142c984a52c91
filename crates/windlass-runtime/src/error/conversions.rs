//! Conversions to [`Error::Other`] of the errors that `?` meets in reconcilers.

use windlass_api::BoxError;

use super::Error;

macro_rules! into_other {
    ($($type:ty),* $(,)?) => {
        $(impl From<$type> for Error {
            fn from(error: $type) -> Self {
                Self::Other(error.into())
            }
        })*
    };
}

into_other! {
    BoxError,
    String,
    &str,
    // std
    std::env::VarError,
    std::fmt::Error,
    std::io::Error,
    std::net::AddrParseError,
    std::num::ParseFloatError,
    std::num::ParseIntError,
    std::num::TryFromIntError,
    std::str::ParseBoolError,
    std::str::Utf8Error,
    std::string::FromUtf8Error,
    // tokio
    tokio::sync::AcquireError,
    tokio::sync::oneshot::error::RecvError,
    tokio::task::JoinError,
    tokio::time::error::Elapsed,
    // JSON, HTTP, URLs and time
    serde_json::Error,
    http::Error,
    http::header::InvalidHeaderValue,
    http::uri::InvalidUri,
    windlass_api::jiff::Error,
    // windlass-api
    windlass_api::DurationError,
    windlass_api::GroupVersionError,
    windlass_api::JsonPathError,
    windlass_api::MetaError,
    windlass_api::NestedError,
    windlass_api::ObjectKeyError,
    windlass_api::PercentError,
    windlass_api::QuantityError,
    windlass_api::ResourceVersionError,
    windlass_api::ScheduleError,
    windlass_api::SchemeError,
    windlass_api::SelectorError,
    windlass_api::TimeError,
    windlass_api::crd::CrdError,
    windlass_api::patch::DiffError,
    // The other crates
    windlass_cache::AddIndexError,
    windlass_cache::InformerError,
    windlass_cache::UnknownIndex,
    windlass_cache::WaitError,
    windlass_client::ManifestError,
    windlass_client::MappingError,
    crate::owners::OwnerError,
}

#[cfg(feature = "webhook")]
into_other! {
    windlass_webhook::CertificateError,
    windlass_webhook::PathError,
    windlass_webhook::RegisterError,
    windlass_webhook::ServeError,
}

impl From<windlass_client::ConfigError> for Error {
    fn from(error: windlass_client::ConfigError) -> Self {
        Self::Client(error.into())
    }
}

#[cfg(test)]
mod tests {
    use windlass_api::{ErrorChain, LabelSelector, Quantity};

    use super::*;
    use crate::Result;

    #[test]
    fn parse_errors_convert_with_the_question_mark() {
        fn read(step: usize) -> Result<()> {
            match step {
                0 => drop(serde_json::from_str::<u8>("x")?),
                1 => drop("many".parse::<Quantity>()?),
                2 => drop("a in".parse::<LabelSelector>()?),
                3 => drop("x y".parse::<http::Uri>()?),
                4 => drop(None::<u8>.ok_or("no image given")?),
                _ => drop(std::fs::read("/nonexistent/file")?),
            }
            Ok(())
        }
        for step in 0..6 {
            let error = read(step).unwrap_err();
            let Error::Other(inner) = &error else { panic!("{error:?}") };
            assert_eq!(ErrorChain(&error).to_string(), ErrorChain(&**inner).to_string());
        }
    }

    #[tokio::test(start_paused = true)]
    async fn task_and_timeout_errors_convert_with_the_question_mark() {
        async fn wait() -> Result<()> {
            Ok(tokio::time::timeout(std::time::Duration::from_secs(1), std::future::pending()).await?)
        }
        async fn join() -> Result<()> {
            let task = tokio::spawn(std::future::pending());
            task.abort();
            Ok(task.await?)
        }
        assert!(matches!(wait().await, Err(Error::Other(error)) if error.is::<tokio::time::error::Elapsed>()));
        assert!(matches!(join().await, Err(Error::Other(error)) if error.is::<tokio::task::JoinError>()));
    }
}
