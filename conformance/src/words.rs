//! Placeholders for names, so that texts that only differ in these names are equal.

/// Replacements, sorted by length in descending order.
#[derive(Clone, Debug, Default)]
pub(crate) struct Words(Vec<(String, &'static str)>);

impl Words {
    pub(crate) fn new(mut words: Vec<(String, &'static str)>) -> Self {
        words.sort_by_key(|(word, _)| std::cmp::Reverse(word.len()));
        Self(words)
    }

    /// Replaces each whole word in the text. A word may be followed by a suffix, as in `ConfigMapList`.
    pub(crate) fn generic(&self, text: &str) -> String {
        let mut written = String::with_capacity(text.len());
        let mut rest = text;
        let mut before = None::<char>;
        while let Some(letter) = rest.chars().next() {
            let begins = before.is_none_or(|before| !before.is_ascii_alphanumeric() && before != '/' || letter == '/');
            let found = self
                .0
                .iter()
                .filter(|_| begins)
                .find(|(word, _)| rest.strip_prefix(&**word).is_some_and(|after| !continues(after)));
            let length = if let Some((word, placeholder)) = found {
                written.push_str(placeholder);
                word.len()
            } else {
                written.push(letter);
                letter.len_utf8()
            };
            before = rest[..length].chars().next_back();
            rest = &rest[length..];
        }
        written
    }
}

/// Reports whether the text continues the preceding word.
fn continues(text: &str) -> bool {
    text.starts_with(|letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit())
}
