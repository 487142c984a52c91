//! The code of a message's decoder.

/// Implements the decoder of a message, with a line per field: `NUMBER MODE ARGUMENT [GATE WIRE];`.
///
/// - `omit PLACE`, `keep PLACE`: one value. An empty one is omitted, or kept.
/// - `list PLACE`, `map PLACE`: all items or entries.
/// - `skip WIRE`: the type does not have the field.
/// - `embedded { … }`: a message whose fields are in the outer struct.
///
/// The fields after `fill` have Go's zero value if they are absent. A gate is a macro of k8s-openapi, whose minor versions
/// have the field.
macro_rules! message {
    ($type:path { $($lines:tt)* }) => {
        message! { $type where Self::default(), { $($lines)* } }
    };
    // A type without a default.
    ($type:path where $blank:expr, { $($lines:tt)* }) => {
        impl Value for $type {
            const WIRE: u8 = BYTES;

            #[inline]
            fn blank() -> Self {
                $blank
            }

            fn read<L: Limits>(&mut self, field: Field<'_>, level: u32) -> Result<State> {
                let (value, level) = (self, level + 1);
                if level > L::LEVELS {
                    return Err(Unusual);
                }
                fields! { L value field level { $($lines)* } }
                Ok(State::Value)
            }
        }
    };
}

/// Implements the decoder of a message without fields, which is an object in JSON.
macro_rules! empty_message {
    ($type:path) => {
        impl Value for $type {
            const WIRE: u8 = BYTES;

            fn blank() -> Self {
                Self::default()
            }

            fn read<L: Limits>(&mut self, field: Field<'_>, _level: u32) -> Result<State> {
                let mut rest = Fields::new(field.content);
                while rest.next()?.is_some() {}
                self.0 = serde_json::Value::Object(serde_json::Map::new());
                Ok(State::Value)
            }
        }
    };
}

/// Decodes the fields of a message.
macro_rules! fields {
    ($limits:ident $value:ident $message:ident $level:ident {
        $($number:literal $mode:ident $argument:tt $([$($gate:ident)*])?;)*
        $(fill: $($filled:literal $place:ident $([$filled_gate:ident])?;)*)?
    }) => {
        #[allow(unused_mut, unused_variables, reason = "some messages have no fields")]
        let mut seen = 0_u64;
        let mut rest = Fields::new($message.content);
        while let Some(field) = rest.next()? {
            match field.number {
                $($number => { field! { $($($gate)*)? $mode $argument, $number $limits $value field rest seen $level } })*
                _ => {}
            }
        }
        $($(if seen & (1 << $filled) == 0 {
            gated! { [$($filled_gate)?] absent! { $place, $limits $value $level } }
        })*)?
    };
}

/// Compiles code with some minor versions only.
macro_rules! gated {
    ([] $($code:tt)*) => { $($code)* };
    ([$gate:ident $($more:ident)*] $($code:tt)*) => { k8s_openapi::$gate! { gated! { [$($more)*] $($code)* } } };
}

/// Decodes one field. A second occurrence is unusual.
macro_rules! field {
    (skip $wire:ident, $number:literal $limits:ident $value:ident $field:ident $($more:ident)*) => {
        $field.expect($wire)?
    };
    (embedded $fields:tt, $number:literal $limits:ident $value:ident $field:ident $rest:ident $seen:ident $level:ident) => {
        if $seen & (1 << $number) != 0 {
            return Err(Unusual);
        }
        $seen |= 1 << $number;
        $field.expect(BYTES)?;
        fields! { $limits $value $field $level $fields }
    };
    (omit $place:ident, $number:literal $limits:ident $value:ident $field:ident $rest:ident $seen:ident $level:ident) => {
        if $seen & (1 << $number) != 0 {
            return Err(Unusual);
        }
        $seen |= 1 << $number;
        omit::<$limits, _>(&mut $value.$place, $field, $level)?;
    };
    (keep $place:ident, $number:literal $limits:ident $value:ident $field:ident $rest:ident $seen:ident $level:ident) => {
        if $seen & (1 << $number) != 0 {
            return Err(Unusual);
        }
        $seen |= 1 << $number;
        keep::<$limits, _>(&mut $value.$place, $field, $level)?;
    };
    ($collection:ident $place:ident, $number:literal $limits:ident $value:ident $field:ident $rest:ident $seen:ident $level:ident) => {
        if $seen & (1 << $number) != 0 {
            return Err(Unusual);
        }
        $seen |= 1 << $number;
        $collection::<$limits, _>(&mut $value.$place, $field, &mut $rest, $level)?;
    };
    ($gate:ident $wire:ident $mode:ident $argument:tt, $number:literal $limits:ident $value:ident $field:ident $($more:ident)*) => {
        $field.expect($wire)?;
        k8s_openapi::$gate! { field! { $mode $argument, $number $limits $value $field $($more)* } }
    };
}

/// Sets an absent field.
macro_rules! absent {
    (embedded, $($more:ident)*) => {
        return Err(Unusual)
    };
    ($place:ident, $limits:ident $value:ident $level:ident) => {
        fill::<$limits, _>(&mut $value.$place, $level)?
    };
}

/// Implements the choice of the decoder. Each kind has the gates of its type.
macro_rules! kinds {
    ($($type:path $([$($gate:ident)*])?;)*) => {
        /// Decodes an object, if its type is a kind.
        pub(crate) fn decode<T: 'static>(object: &mut Option<T>, value: &[u8]) {
            $(gated! { [$($($gate)*)?] kind! { $type, T object value } })*
        }

        /// Visits each kind.
        #[cfg(test)]
        pub(crate) fn visit(visitor: &mut impl crate::tests::Visitor) {
            $(gated! { [$($($gate)*)?] visitor.visit::<$type>(); })*
        }
    };
}

/// Decodes a value, if the caller's type is this kind.
macro_rules! kind {
    ($type:path, $caller:ident $object:ident $value:ident) => {
        // Constant, so that the decoders of most other kinds are not compiled.
        if const { size_of::<$caller>() == size_of::<$type>() } {
            let object: &mut dyn Any = $object;
            if let Some(place) = object.downcast_mut::<Option<$type>>() {
                return decode_kind(place, $value);
            }
        }
    };
}
