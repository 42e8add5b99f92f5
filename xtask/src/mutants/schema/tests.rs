#![allow(non_snake_case)]

use super::*;

/// The mutant that replaces the first `old` after `context` in the source.
fn mutant(source: &str, genre: &str, context: &str, old: &str, new: &str) -> Mutant {
    let from = source.find(context).expect(context);
    let start = from + source[from..].find(old).expect(old);
    Mutant {
        file: "a.rs".into(),
        name: String::new(),
        genre: genre.into(),
        range: start..start + old.len(),
        replacement: new.into(),
        line: String::new(),
    }
}

/// The source with white space and marks removed.
fn plain(source: &str) -> String {
    let mut text = source.replace(END, "");
    while let Some((before, rest)) = text.split_once("/*mutant ") {
        text = format!("{before}{}", rest.split_once("*/").expect("a mark").1);
    }
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn schema(source: &str, mutants: &[Mutant]) -> Schema {
    let numbered: Vec<(u32, &Mutant)> = (1..).zip(mutants).collect();
    Schema::new(source, &numbered).expect("valid Rust")
}

#[test]
fn operators__one_match_for_all_changes_of_an_expression() {
    let source = "fn f(a: u32, b: u32) -> u32 { a + b * 2 }";
    let mutants = [
        mutant(source, "BinaryOperator", "a + b", "+", "-"),
        mutant(source, "BinaryOperator", "a + b", "+", "*"),
        mutant(source, "BinaryOperator", "b * 2", "*", "+"),
    ];
    let schema = schema(source, &mutants);
    assert!(schema.left_out.is_empty());
    assert_eq!(
        plain(&schema.source),
        "fn f(a: u32, b: u32) -> u32 { (match crate::active_mutant() { other if other != 1 && \
         other != 2 => (a + (match crate::active_mutant() { other if other != 3 => (b * 2), _ => \
         ((b) + (2)) , })), 1 => ((a) - (b * 2)) , _ => ((a) * (b * 2)) , }) }"
    );
}

#[test]
fn bodies__return_early() {
    let source = "fn f() -> u32 {\n    let x = 1;\n    x\n}";
    let schema = schema(source, &[mutant(source, "FnValue", "let", "let x = 1;\n    x", "0")]);
    assert_eq!(
        plain(&schema.source),
        "fn f() -> u32 { if crate::active_mutant() == 1 { return 0; } let x = 1; x }"
    );
}

#[test]
fn arms__a_guard_replaces_deletion() {
    let source = "fn f(x: u32) -> u32 { match x { 1 => 2, y if y > 3 => 4, _ => 5 } }";
    let mutants = [
        mutant(source, "MatchArm", "1 =>", "1 => 2,", ""),
        mutant(source, "MatchArm", "y if", "y if y > 3 => 4,", ""),
        mutant(source, "MatchArmGuard", "y > 3", "y > 3", "true"),
    ];
    let schema = schema(source, &mutants);
    assert!(schema.left_out.is_empty());
    assert_eq!(
        plain(&schema.source),
        "fn f(x: u32) -> u32 { match x { 1 if crate::active_mutant() != 1 => 2, y if (match \
         crate::active_mutant() { other if other != 2 && other != 3 => (y > 3), 2 => (false) , _ \
         => (true) , }) => 4, _ => 5 } }"
    );
}

#[test]
fn fields_and_unary_operators() {
    let source = "fn f(s: S) -> bool { let t = S { a: 1, b: 2, ..s }; !t.c }";
    let mutants = [
        mutant(source, "StructField", "b: 2", "b: 2,", ""),
        mutant(source, "UnaryOperator", "!t", "!", ""),
    ];
    let text = plain(&schema(source, &mutants).source);
    assert!(text.contains("_ => (S { a: 1, ..s })"), "{text}");
    assert!(text.contains("(!t.c), _ => (t.c)"), "{text}");
}

#[test]
fn constants__are_left_out() {
    let source = "const A: u32 = 1 + 2;\npub const fn f() -> u32 { 3 + 4 }\n\
                  fn g(x: Option<u32>) -> [u32; 5 + 6] { if let Some(y) = x && y > 7 { [y; 11] } \
                  else { [0; 11] } }";
    let contexts = ["1 + 2", "3 + 4", "5 + 6"];
    let mut mutants: Vec<Mutant> = contexts
        .iter()
        .map(|context| mutant(source, "BinaryOperator", context, "+", "-"))
        .collect();
    mutants.push(mutant(source, "FnValue", "3 + 4", "3 + 4", "0"));
    mutants.push(mutant(source, "BinaryOperator", "&&", "&&", "||"));
    let schema = schema(source, &mutants);
    assert_eq!(schema.left_out, [1, 2, 3, 4, 5]);
    assert_eq!(schema.source, source);
}

#[test]
fn constant_functions__of_statics_run_lazily() {
    let source = "static T: u32 = table();\nconst fn table() -> u32 { half(2 + 4) }\n\
                  const fn half(x: u32) -> u32 { x / 2 }\n\
                  const C: u32 = fixed(1);\nconst fn fixed(x: u32) -> u32 { x * 3 }\n";
    let mutants = [
        mutant(source, "BinaryOperator", "2 + 4", "+", "-"),
        mutant(source, "BinaryOperator", "x / 2", "/", "*"),
        mutant(source, "BinaryOperator", "x * 3", "*", "+"),
    ];
    let schema = schema(source, &mutants);
    assert_eq!(schema.left_out, [3]);
    assert_eq!(
        plain(&schema.source),
        "static T: std::sync::LazyLock<u32> = std::sync::LazyLock::new(|| table()); fn table() -> \
         u32 { half((match crate::active_mutant() { other if other != 1 => (2 + 4), _ => ((2) - \
         (4)) , })) } fn half(x: u32) -> u32 { (match crate::active_mutant() { other if other != 2 \
         => (x / 2), _ => ((x) * (2)) , }) } const C: u32 = fixed(1); const fn fixed(x: u32) -> \
         u32 { x * 3 }"
    );
}

#[test]
fn mutant_at__its_lines_or_the_nearest() {
    let source =
        "fn f(a: u32) -> u32 {\n\n\n\n    a + 1\n}\n\n\n\nfn g(a: u32) -> u32 {\n    a * 2\n}\n";
    let mutants = [
        mutant(source, "BinaryOperator", "a + 1", "+", "-"),
        mutant(source, "BinaryOperator", "a * 2", "*", "/"),
    ];
    let schema = schema(source, &mutants);
    for (number, mark) in [(1, "/*mutant 1*/"), (2, "/*mutant 2*/")] {
        let line = schema.source.lines().position(|line| line.contains(mark)).expect(mark) + 1;
        assert_eq!(schema.mutant_at(line), Some(number));
        assert_eq!(schema.mutant_at(line - 1), Some(number));
        assert_eq!(schema.mutant_at(line + 1), Some(number));
    }
    assert_eq!(Schema::new(source, &[]).expect("valid Rust").mutant_at(3), None);
}
