//! The TLS cryptography of all Windlass clients and servers.
//!
//! TLS itself is rustls. Its cryptography comes from a [`CryptoProvider`], and [`provider`] is the only place that
//! chooses it:
//!
//! 1. the process default, if the program has called [`CryptoProvider::install_default`];
//! 2. otherwise the provider of the crate's features. If several features are enabled, the first one of this table is
//!    used:
//!
//! | feature | library | build needs |
//! |---|---|---|
//! | `fips` | aws-lc-rs with its FIPS module | a C compiler, CMake and Go |
//! | `aws-lc-rs` | aws-lc-rs | a C compiler; on some platforms CMake |
//! | `openssl` | OpenSSL of the system | a C compiler and the headers of OpenSSL |
//! | `graviola` | graviola, for x86-64 and aarch64 | only Rust |
//! | `ring` (default) | ring | a C compiler |
//!
//! `ring` is the last one, because it is the default: a program that enables another feature gets that one, also if a
//! dependency enables `ring`.
//!
//! # Guarantees
//!
//! - The process default is never set. It belongs to the program.
//! - A process default that is installed later is used by all TLS configurations that are created from then on.
//!
//! # Not guaranteed
//!
//! - A provider need not support every cipher suite. A configuration that requires another suite fails.

use std::sync::{Arc, LazyLock};

use rustls::crypto::CryptoProvider;
use thiserror::Error;

/// The error of a program without TLS cryptography.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error(
    "no TLS provider: enable one of the features `ring`, `aws-lc-rs`, `fips`, `openssl` and `graviola` of `windlass`, \
     or install a provider with rustls' `CryptoProvider::install_default` before the first connection"
)]
pub struct NoProvider;

/// The constructor of the enabled features' provider.
const BUILT_IN: Option<fn() -> CryptoProvider> = {
    #[cfg(feature = "fips")]
    let constructor = Some(rustls::crypto::default_fips_provider as fn() -> CryptoProvider);
    #[cfg(all(feature = "aws-lc-rs", not(feature = "fips")))]
    let constructor = Some(rustls::crypto::aws_lc_rs::default_provider as fn() -> CryptoProvider);
    #[cfg(all(feature = "openssl", not(feature = "aws-lc-rs")))]
    let constructor = Some(rustls_openssl::default_provider as fn() -> CryptoProvider);
    #[cfg(all(feature = "graviola", not(any(feature = "aws-lc-rs", feature = "openssl"))))]
    let constructor = Some(rustls_graviola::default_provider as fn() -> CryptoProvider);
    #[cfg(all(feature = "ring", not(any(feature = "aws-lc-rs", feature = "openssl", feature = "graviola"))))]
    let constructor = Some(rustls::crypto::ring::default_provider as fn() -> CryptoProvider);
    #[cfg(not(any(feature = "ring", feature = "aws-lc-rs", feature = "openssl", feature = "graviola")))]
    let constructor = None;
    constructor
};

/// Returns the process default, or else the provider of the enabled features.
pub fn provider() -> Result<Arc<CryptoProvider>, NoProvider> {
    static PROVIDER: LazyLock<Option<Arc<CryptoProvider>>> =
        LazyLock::new(|| BUILT_IN.map(|constructor| Arc::new(constructor())));
    CryptoProvider::get_default().or(PROVIDER.as_ref()).cloned().ok_or(NoProvider)
}

/// The examples of README.md.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
