//! Words that no file may hold: paths of the machine it was written on, and names of pages that a reader does not have.

use super::files::SourceFile;

/// Written apart, so that this file does not hold them.
const FORBIDDEN: [(&str, &str); 12] = [
    ("/wo", "rk/"),
    ("/ro", "ot/"),
    ("/ho", "me/"),
    ("/Us", "ers/"),
    ("shared/", "design"),
    ("archit", "ecture.md"),
    ("miss", "ion.md"),
    ("proto", "col.md"),
    ("reliab", "ility.md"),
    ("sty", "le.md"),
    ("ecosys", "tem.md"),
    ("cas", "es.md"),
];

/// Every line that holds one of them, at the start of a word.
pub fn forbidden(files: &[SourceFile]) -> Vec<String> {
    let mut problems = Vec::new();
    for file in files {
        for (number, line) in file.text.lines().enumerate() {
            for (first, second) in FORBIDDEN {
                let word = [first, second].concat();
                let at_a_start = |(at, _): &(usize, &str)| {
                    let before = line[..*at].chars().next_back();
                    !before.is_some_and(|c| c.is_ascii_alphanumeric() || c == '.' || c == '}')
                };
                if line.match_indices(&word).any(|found| at_a_start(&found)) {
                    problems.push(format!("{}:{}: holds `{word}`", file.path, number + 1));
                }
            }
        }
    }
    problems
}
