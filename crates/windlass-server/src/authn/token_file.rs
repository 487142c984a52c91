//! The file of static tokens (`--token-auth-file`): lines of comma-separated values.

use crate::identity::User;

/// Parses a file of tokens. Each line has the token, the user name, the UID, and optionally the groups, which are
/// separated by commas within quotes.
///
/// # Errors
/// Returns an error if a line has fewer than three columns or an unpaired quote. `path` is the name of the file in errors.
pub fn parse_token_file(path: &str, text: &str) -> Result<Vec<(String, User)>, String> {
    let mut tokens = Vec::new();
    for (number, record) in records(text)?.into_iter().enumerate() {
        let [token, name, uid, rest @ ..] = record.as_slice() else {
            return Err(format!(
                "token file '{path}' must have at least 3 columns (token, user name, user uid), found {}",
                record.len()
            ));
        };
        if token.is_empty() {
            tracing::warn!("empty token has been found in token file '{path}', record number '{}'", number + 1);
            continue;
        }
        let groups = rest.first().into_iter().flat_map(|groups| groups.split(','));
        tokens.push((token.clone(), User::new(name.as_str()).with_uid(uid.as_str()).in_groups(groups)));
    }
    Ok(tokens)
}

/// Splits comma-separated values into records, as Go does. Empty lines are skipped.
fn records(text: &str) -> Result<Vec<Vec<String>>, String> {
    let mut records = Vec::new();
    let mut rest = text;
    let mut line = 1;
    while !rest.is_empty() {
        let mut record = Vec::new();
        loop {
            let (field, after) = if let Some(quoted) = rest.strip_prefix('"') {
                quoted_field(quoted, line)?
            } else {
                let end = rest.find([',', '\n']).unwrap_or(rest.len());
                let field = rest.get(..end).unwrap_or_default().trim_end_matches('\r');
                if field.contains('"') {
                    return Err(format!("parse error on line {line}: bare \" in non-quoted field"));
                }
                (field.to_owned(), rest.get(end..).unwrap_or_default())
            };
            line += field.matches('\n').count();
            record.push(field);
            rest = after;
            match rest.strip_prefix(',') {
                Some(next) => rest = next,
                None => break,
            }
        }
        rest = rest.strip_prefix('\n').unwrap_or(rest);
        line += 1;
        if record.len() > 1 || record.first().is_some_and(|field| !field.is_empty()) {
            records.push(record);
        }
    }
    Ok(records)
}

/// Reads a field after its opening quote. Returns the field and the rest of the text.
fn quoted_field(mut rest: &str, line: usize) -> Result<(String, &str), String> {
    let mut field = String::new();
    loop {
        let (part, after) = rest
            .split_once('"')
            .ok_or(format!("parse error on line {line}: extraneous or missing \" in quoted-field"))?;
        field.push_str(part);
        if let Some(after) = after.strip_prefix('"') {
            field.push('"');
            rest = after;
            continue;
        }
        let end = after.strip_prefix('\r').filter(|after| after.starts_with('\n')).unwrap_or(after);
        if end.is_empty() || end.starts_with([',', '\n']) {
            return Ok((field, end));
        }
        return Err(format!("parse error on line {line}: extraneous or missing \" in quoted-field"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_name_tokens_users_and_groups() {
        let text = "T,alice,7,\"developers,operators\"\r\n\n,nobody,8\n\"A\"\"B\",bob,9,\nC,carol,10";
        let parsed: Vec<String> = parse_token_file("tokens.csv", text)
            .unwrap()
            .iter()
            .map(|(token, user)| format!("{token} {} {} {}", user.name, user.uid, user.groups.join("+")))
            .collect();
        assert_eq!(
            parsed,
            [
                "T alice 7 developers+operators+system:authenticated",
                "A\"B bob 9 +system:authenticated",
                "C carol 10 system:authenticated"
            ]
        );
    }

    #[test]
    fn errors_name_the_file_or_the_line() {
        let error = |text: &str| parse_token_file("tokens.csv", text).unwrap_err();
        let columns = "token file 'tokens.csv' must have at least 3 columns (token, user name, user uid), found 2";
        assert_eq!(error("T,alice"), columns);
        assert_eq!(error("A,b,c\nT,al\"ice,7"), "parse error on line 2: bare \" in non-quoted field");
        assert_eq!(error("\"T,alice,7"), "parse error on line 1: extraneous or missing \" in quoted-field");
    }
}
