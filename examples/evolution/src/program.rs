//! The three programs, by name.

use std::{fmt, str::FromStr};

use windlass::{
    Client,
    api::BoxError,
    k8s::apps::v1::{Deployment, StatefulSet},
};

use crate::{informers, polling, shared};

/// One of the three programs. All do the same work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Program {
    /// A loop lists all objects periodically.
    Polling,
    /// Each controller lists once and then watches.
    Informers,
    /// All controllers share one informer per kind.
    Shared,
}

/// The error for an unknown program name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownProgram(String);

impl Program {
    /// All programs, in historical order.
    pub const ALL: [Self; 3] = [Self::Polling, Self::Informers, Self::Shared];

    /// Returns the program's name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Polling => "polling",
            Self::Informers => "informers",
            Self::Shared => "shared",
        }
    }

    /// Runs until it is dropped or an error occurs.
    ///
    /// # Errors
    /// Returns the first unrecoverable error.
    pub async fn run(self, client: &Client) -> Result<(), BoxError> {
        match self {
            Self::Polling => {
                tokio::try_join!(polling::run::<Deployment>(client), polling::run::<StatefulSet>(client))?;
            }
            Self::Informers => {
                tokio::try_join!(informers::run::<Deployment>(client), informers::run::<StatefulSet>(client))?;
            }
            Self::Shared => shared::run(client).await?,
        }
        Ok(())
    }
}

impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Program {
    type Err = UnknownProgram;

    fn from_str(name: &str) -> Result<Self, UnknownProgram> {
        Self::ALL.into_iter().find(|program| program.name() == name).ok_or_else(|| UnknownProgram(name.to_owned()))
    }
}

impl fmt::Display for UnknownProgram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "unknown program {:?}: valid names are {}", self.0, Program::ALL.map(Program::name).join(", "))
    }
}

impl std::error::Error for UnknownProgram {}
