//! Additions to kustomizations that people have written.

/// With a file among the `resources`, if it is not there. The text around stays.
pub(crate) fn with_resource(text: &str, file: &str) -> String {
    const KEY: &str = "resources:";
    let entry = format!("- {file}");
    if text.lines().any(|line| line.trim() == entry) {
        return text.to_owned();
    }
    let mut lines: Vec<&str> = text.lines().collect();
    let Some(key) = lines.iter().position(|line| line.starts_with(KEY)) else {
        return format!("{}\n{KEY}\n{entry}\n", text.trim_end()).trim_start().to_owned();
    };
    if lines[key].contains("[]") {
        lines[key] = KEY;
    }
    let is_item = |line: &&&str| line.trim_start().starts_with("- ");
    let count = lines[key + 1..].iter().take_while(is_item).count();
    let indent =
        lines.get(key + count).filter(|_| count > 0).map_or("", |last| &last[..last.len() - last.trim_start().len()]);
    let entry = format!("{indent}{entry}");
    lines.insert(key + 1 + count, &entry);
    lines.join("\n") + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_comes_after_the_others_and_once() {
        let one = with_resource("# Mine.\nresources: []\nlabels: {}\n", "a.yaml");
        assert_eq!(one, "# Mine.\nresources:\n- a.yaml\nlabels: {}\n");
        assert_eq!(with_resource(&one, "a.yaml"), one);
        assert_eq!(with_resource("resources:\n  - a.yaml\n", "b.yaml"), "resources:\n  - a.yaml\n  - b.yaml\n");
        assert_eq!(with_resource("labels: {}\n", "b.yaml"), "labels: {}\nresources:\n- b.yaml\n");
    }
}
