//! The three programs, by name.

use std::{fmt, str::FromStr};

use windlass::{
    Client,
    api::BoxError,
    k8s::apps::v1::{Deployment, StatefulSet},
};

use crate::{informers, polling, shared};

/// One of the programs, each of which does the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Program {
    /// A loop asks for everything, again and again.
    Polling,
    /// Each controller lists once and watches from there.
    Informers,
    /// All controllers share one informer for each kind.
    Shared,
}

/// A name that none of them has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownProgram(String);

impl Program {
    /// In the order in which people came to them.
    pub const ALL: [Self; 3] = [Self::Polling, Self::Informers, Self::Shared];

    /// What it is called by.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Polling => "polling",
            Self::Informers => "informers",
            Self::Shared => "shared",
        }
    }

    /// Works until it is dropped, or something fails that it cannot go on without.
    ///
    /// # Errors
    /// What has failed.
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
        write!(f, "there is no program {:?}; there are: {}", self.0, Program::ALL.map(Program::name).join(", "))
    }
}

impl std::error::Error for UnknownProgram {}
