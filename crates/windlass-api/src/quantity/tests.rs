use super::*;

fn canonical(text: &str) -> Result<String, QuantityError> {
    text.parse::<Quantity>().map(|quantity| quantity.to_string())
}

fn quantity(text: &str) -> Quantity {
    text.parse().unwrap()
}

#[test]
fn quantities_take_the_form_that_go_gives_them() {
    let table = [
        ("0", "0"),
        ("0.5", "500m"),
        ("1000m", "1"),
        ("1024Mi", "1Gi"),
        ("0.10", "100m"),
        ("1e9", "1e9"),
        ("100Mi", "100Mi"),
        ("1.5Gi", "1536Mi"),
        ("1000Ki", "1000Ki"),
        ("1Ki", "1Ki"),
        ("512Ki", "512Ki"),
        ("0.5Ki", "512"),
        ("0Mi", "0"),
        ("-0.5", "-500m"),
        ("+1Mi", "+1Mi"),
        ("1.500", "1.500"),
        ("1500000", "1500k"),
        ("1000000", "1M"),
        ("12e6", "12e6"),
        ("1e3", "1e3"),
        ("10e3", "10e3"),
        ("1000e3", "1e6"),
        ("1E", "1E"),
        ("1000E", "1"),
        ("1e-20", "1e-9"),
        ("0.0000000001", "1n"),
        ("1.0000000001", "1000000001n"),
        ("100000000000000000000", "100E"),
        ("16Ei", "9223372036854775807"),
        ("1.1Ki", "1126400m"),
        ("0.1Ki", "102400m"),
        ("1e1000", "10e999"),
        (".5", "500m"),
        ("5.", "5."),
        ("0x", "x"),
    ];
    for (text, expected) in table {
        if text == "0x" {
            assert_eq!(canonical(text), Err(QuantityError::Malformed));
        } else {
            assert_eq!(canonical(text).as_deref(), Ok(expected), "{text}");
        }
    }
}

#[test]
fn invalid_quantities_have_specific_errors() {
    for (text, expected) in [
        ("", QuantityError::Malformed),
        ("abc", QuantityError::Malformed),
        ("1.2.3", QuantityError::Malformed),
        ("1Kx", QuantityError::Malformed),
        ("1KiMi", QuantityError::Suffix),
        ("1i", QuantityError::Suffix),
    ] {
        assert_eq!(canonical(text), Err(expected), "{text}");
    }
}

#[test]
fn the_canonical_form_is_a_fixed_point_and_keeps_the_value() {
    for whole in ["0", "1", "7", "8", "10", "999", "1000", "1023", "1024", "1025", "123456789", "9999999999"] {
        for fraction in ["", ".5", ".25", ".001", ".000000001", ".100"] {
            for suffix in ["", "n", "u", "m", "k", "M", "G", "T", "P", "Ki", "Mi", "Gi", "Ti", "e3", "e-3", "E2"] {
                for sign in ["", "-"] {
                    let text = format!("{sign}{whole}{fraction}{suffix}");
                    let once = canonical(&text).unwrap();
                    let twice = canonical(&once).unwrap();
                    assert_eq!(once, twice, "{text}");
                }
            }
        }
    }
}

#[test]
fn sums_are_exact_in_the_form_of_the_first_nonzero() {
    for (a, b, sum, difference) in [
        ("1", "1", "2", "0"),
        ("500m", "1", "1500m", "-500m"),
        ("1Gi", "512Mi", "1536Mi", "512Mi"),
        ("0", "1Gi", "1Gi", "-1Gi"),
        ("1Gi", "1", "1073741825", "1073741823"),
        ("1", "1Ki", "1025", "-1023"),
        ("1e3", "1", "1001", "999"),
        ("-1", "-2", "-3", "1"),
        ("9223372036854775807", "1", "9223372036854775808", "9223372036854775806"),
        ("1.5Gi", "0.1", "1610612736100m", "1610612735900m"),
        ("0.5Mi", "3", "524291", "524285"),
        ("100m", "1Ki", "1024100m", "-1023900m"),
        ("12e6", "1Mi", "13048576", "10951424"),
        ("1n", "1E", "1000000000000000000000000001n", "-999999999999999999999999999n"),
    ] {
        assert_eq!((quantity(a) + quantity(b)).to_string(), sum, "{a} + {b}");
        assert_eq!((quantity(a) - quantity(b)).to_string(), difference, "{a} - {b}");
        let mut added = quantity(a);
        added += &quantity(b);
        added -= &quantity(b);
        assert_eq!(added, quantity(a), "{a} + {b} - {b}");
    }
    assert_eq!(["100m", "1", "900m"].map(quantity).into_iter().sum::<Quantity>().to_string(), "2");
}

#[test]
fn products_and_signs_keep_the_form() {
    assert_eq!((quantity("1.5Gi") * 3).to_string(), "4608Mi");
    assert_eq!((quantity("250m") * -4).to_string(), "-1");
    let none = 0;
    assert_eq!((quantity("7") * none).to_string(), "0");
    assert_eq!((-quantity("1Ki")).to_string(), "-1Ki");
    assert_eq!((quantity("9E") * i64::MAX).value(), i64::MAX, "beyond what a number holds");
}

#[test]
fn order_is_of_amounts() {
    let ordered = ["-1Gi", "-1", "0", "1n", "999m", "1", "1001m", "1k", "1Ki", "1e6", "1Mi", "1E", "1Ei"];
    for pair in ordered.windows(2) {
        assert!(quantity(pair[0]) < quantity(pair[1]), "{pair:?}");
    }
    assert_eq!(quantity("1000m"), quantity("1"));
    assert_eq!(quantity("-0"), quantity("0"));
    assert_eq!(quantity("0").cmp(&-quantity("0")), Ordering::Equal);
}

#[test]
fn nano_value_is_exact_and_limited() {
    for (text, nano) in [
        ("1Gi", 1_073_741_824_000_000_000),
        ("16Ei", 9_223_372_036_854_775_807_000_000_000),
        ("-1.5n", -2),
        ("0", 0),
        ("1e60", i128::MAX),
        ("-1e60", -i128::MAX),
    ] {
        assert_eq!(quantity(text).nano_value(), nano, "{text}");
    }
}

#[test]
fn whole_numbers_are_rounded_away_from_zero() {
    for (text, value, milli) in
        [("1", 1, 1000), ("1n", 1, 1), ("-1100m", -2, -1100), ("0", 0, 0), ("1Ki", 1024, 1_024_000), ("1e-3", 1, 1)]
    {
        assert_eq!((quantity(text).value(), quantity(text).milli_value()), (value, milli), "{text}");
    }
    assert_eq!(quantity("1.5Gi").as_f64().to_bits(), 1_610_612_736.0_f64.to_bits());
    assert_eq!(Quantity::milli(1500, QuantityFormat::DecimalSi).to_string(), "1500m");
    assert_eq!(Quantity::scaled(1, -12, QuantityFormat::DecimalSi).to_string(), "1n");
    assert_eq!(Quantity::new(2048, QuantityFormat::BinarySi).to_string(), "2Ki");
    assert_eq!(quantity("2Ki").in_format(QuantityFormat::DecimalSi).to_string(), "2048");
}

#[test]
fn json_is_text_or_number() {
    let read = |json: &str| serde_json::from_str::<Quantity>(json);
    assert_eq!(read("\"1Gi\"").unwrap(), read("1073741824").unwrap());
    assert_eq!(serde_json::to_string(&read("0.5").unwrap()).unwrap(), "\"500m\"");
    assert!(read("\"x\"").unwrap_err().to_string().starts_with("quantities must match"));
}
