//! Views of the scalar types of Kubernetes.

use std::{borrow::Cow, ops::Deref};

use k8s_openapi::{
    ByteString,
    apimachinery::pkg::apis::meta::v1::{MicroTime, Time},
};
use windlass_api::{Quantity, QuantityError};

use crate::{FromView, Scalar, View};

/// A view of a quantity, such as `500m`. It dereferences to its text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QuantityView<'a>(Cow<'a, str>);

/// A view of an integer or a string, such as a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IntOrStringView<'a> {
    /// An integer.
    Int(i32),
    /// A string.
    String(Cow<'a, str>),
}

/// A view of bytes, such as a value of a Secret, which are encoded as base64.
#[derive(Clone, Copy, Debug)]
pub struct ByteStringView<'a>(View<'a>);

impl<'a> QuantityView<'a> {
    /// Returns the text.
    #[must_use]
    pub fn into_text(self) -> Cow<'a, str> {
        self.0
    }

    /// Parses the quantity.
    pub fn parse(&self) -> Result<Quantity, QuantityError> {
        self.0.parse()
    }
}

impl Deref for QuantityView<'_> {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl<'a> ByteStringView<'a> {
    /// Returns the text in base64.
    #[must_use]
    pub fn encoded(self) -> Cow<'a, str> {
        self.0.read()
    }

    /// Decodes the bytes. Text that is not base64 is an error of the document.
    #[must_use]
    pub fn bytes(self) -> Vec<u8> {
        match self.0.plain_bytes() {
            Some(bytes) => bytes.to_vec(),
            None => self.0.decode::<ByteString>().unwrap_or_default().0,
        }
    }
}

impl<'a> Scalar<'a> for QuantityView<'a> {
    fn read(view: View<'a>) -> Option<Self> {
        match view.number() {
            Some(number) => Some(Self(number)),
            None => view.text().map(Self),
        }
    }
}

impl<'a> FromView<'a> for QuantityView<'a> {
    fn from_view(view: View<'a>) -> Self {
        view.read::<Option<Self>>().unwrap_or_default()
    }
}

impl<'a> Scalar<'a> for IntOrStringView<'a> {
    fn read(view: View<'a>) -> Option<Self> {
        if view.is_number() { i32::read(view).map(Self::Int) } else { view.text().map(Self::String) }
    }
}

impl<'a> FromView<'a> for IntOrStringView<'a> {
    fn from_view(view: View<'a>) -> Self {
        view.read::<Option<Self>>().unwrap_or(Self::Int(0))
    }
}

impl<'a> Scalar<'a> for ByteStringView<'a> {
    fn read(view: View<'a>) -> Option<Self> {
        Some(Self(view))
    }
}

impl<'a> FromView<'a> for ByteStringView<'a> {
    fn from_view(view: View<'a>) -> Self {
        Self(view)
    }
}

impl<'a> Scalar<'a> for Time {
    fn read(view: View<'a>) -> Option<Self> {
        view.time().map(Self)
    }
}

impl<'a> Scalar<'a> for MicroTime {
    fn read(view: View<'a>) -> Option<Self> {
        view.time().map(Self)
    }
}
