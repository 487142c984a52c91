#![doc = include_str!("contracts.md")]
