//! The expressions of claims: arithmetic over measurements of runs.
//!
//! A measurement is a name with selectors in brackets: `deadlines_met[d3, workers=36]`. A selector
//! without `=` names a transport. Operators are `+ - * /` and the comparisons `> >= < <=`, which
//! are 1 where they hold and 0 elsewhere. Functions are `min`, `max`, `mean`, `abs` and
//! `crossing(EXPRESSION, AXIS, LEVEL)`: the value of a sweep's axis at which the expression first
//! crosses the level, interpolated between the points.

use std::fmt;

/// An expression of a claim.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Expr {
    Number(f64),
    Leaf(Leaf),
    Negative(Box<Expr>),
    Binary(Op, Box<Expr>, Box<Expr>),
    Call(Function, Vec<Expr>),
    /// `crossing(of, axis, level)`.
    Crossing {
        of: Box<Expr>,
        axis: String,
        level: f64,
    },
}

/// A measurement and what selects its runs.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Leaf {
    pub(crate) name: String,
    pub(crate) selectors: Vec<Selector>,
}

/// One selector of a measurement.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Selector {
    /// `transport` for a selector without a key.
    pub(crate) key: String,
    pub(crate) value: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Op {
    Add,
    Subtract,
    Multiply,
    Divide,
    Above,
    AtLeast,
    Below,
    AtMost,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Function {
    Min,
    Max,
    Mean,
    Abs,
}

impl Op {
    /// Applies the operator.
    pub(crate) fn apply(self, a: f64, b: f64) -> f64 {
        let truth = |holds: bool| if holds { 1.0 } else { 0.0 };
        match self {
            Op::Add => a + b,
            Op::Subtract => a - b,
            Op::Multiply => a * b,
            Op::Divide => a / b,
            Op::Above => truth(a > b),
            Op::AtLeast => truth(a >= b),
            Op::Below => truth(a < b),
            Op::AtMost => truth(a <= b),
        }
    }
}

impl Function {
    /// Applies the function; the parser gives it at least one argument.
    pub(crate) fn apply(self, values: &[f64]) -> f64 {
        match self {
            Function::Min => values.iter().copied().fold(f64::INFINITY, f64::min),
            Function::Max => values.iter().copied().fold(f64::NEG_INFINITY, f64::max),
            Function::Mean => values.iter().sum::<f64>() / values.len() as f64,
            Function::Abs => values[0].abs(),
        }
    }
}

impl Leaf {
    /// The value of the selector with a key, if there is one.
    pub(crate) fn selector(&self, key: &str) -> Option<&str> {
        self.selectors.iter().find(|s| s.key == key).map(|s| &*s.value)
    }
}

impl fmt::Display for Leaf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)?;
        if self.selectors.is_empty() {
            return Ok(());
        }
        let text = |s: &Selector| match &*s.key {
            "transport" => s.value.clone(),
            key => format!("{key}={}", s.value),
        };
        let all: Vec<String> = self.selectors.iter().map(text).collect();
        write!(f, "[{}]", all.join(", "))
    }
}

impl Expr {
    /// Reads an expression.
    pub(crate) fn parse(text: &str) -> Result<Expr, String> {
        let mut parser = Parser { text, at: 0 };
        let expr = parser.comparison()?;
        parser.space();
        match parser.rest().is_empty() {
            true => Ok(expr),
            false => Err(parser.error("expected an operator or the end")),
        }
    }

    /// The difference of two expressions.
    pub(crate) fn minus(self, other: Expr) -> Expr {
        Expr::Binary(Op::Subtract, Box::new(self), Box::new(other))
    }

    /// Calls `visit` for each measurement.
    pub(crate) fn leaves<'a>(&'a self, visit: &mut impl FnMut(&'a Leaf)) {
        match self {
            Expr::Number(_) => {}
            Expr::Leaf(leaf) => visit(leaf),
            Expr::Negative(inner) | Expr::Crossing { of: inner, .. } => inner.leaves(visit),
            Expr::Binary(_, a, b) => {
                a.leaves(visit);
                b.leaves(visit);
            }
            Expr::Call(_, arguments) => arguments.iter().for_each(|a| a.leaves(visit)),
        }
    }

    /// The expression with further selectors on every measurement that does not have their key.
    pub(crate) fn selecting(&self, more: &[Selector]) -> Expr {
        let inner = |e: &Expr| Box::new(e.selecting(more));
        match self {
            Expr::Number(x) => Expr::Number(*x),
            Expr::Leaf(leaf) => {
                let mut leaf = leaf.clone();
                let new = more.iter().filter(|s| leaf.selector(&s.key).is_none()).cloned();
                let new: Vec<Selector> = new.collect();
                leaf.selectors.extend(new);
                Expr::Leaf(leaf)
            }
            Expr::Negative(e) => Expr::Negative(inner(e)),
            Expr::Binary(op, a, b) => Expr::Binary(*op, inner(a), inner(b)),
            Expr::Call(f, all) => Expr::Call(*f, all.iter().map(|e| e.selecting(more)).collect()),
            Expr::Crossing { of, axis, level } => {
                Expr::Crossing { of: inner(of), axis: axis.clone(), level: *level }
            }
        }
    }
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Parser<'a> {
    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn space(&mut self) {
        self.at = self.text.len() - self.rest().trim_start().len();
    }

    fn error(&self, what: &str) -> String {
        let near: String = self.rest().chars().take(20).collect();
        match near.is_empty() {
            true => format!("{what} at the end of `{}`", self.text),
            false => format!("{what} at `{near}` in `{}`", self.text),
        }
    }

    fn take(&mut self, token: &str) -> bool {
        self.space();
        let found = self.rest().starts_with(token);
        self.at += if found { token.len() } else { 0 };
        found
    }

    fn expect(&mut self, token: &str) -> Result<(), String> {
        match self.take(token) {
            true => Ok(()),
            false => Err(self.error(&format!("expected `{token}`"))),
        }
    }

    fn comparison(&mut self) -> Result<Expr, String> {
        let left = self.sum()?;
        for (token, op) in
            [(">=", Op::AtLeast), ("<=", Op::AtMost), (">", Op::Above), ("<", Op::Below)]
        {
            if self.take(token) {
                return Ok(Expr::Binary(op, Box::new(left), Box::new(self.sum()?)));
            }
        }
        Ok(left)
    }

    fn sum(&mut self) -> Result<Expr, String> {
        let mut left = self.product()?;
        loop {
            let op = match () {
                () if self.take("+") => Op::Add,
                () if self.take("-") => Op::Subtract,
                () => return Ok(left),
            };
            left = Expr::Binary(op, Box::new(left), Box::new(self.product()?));
        }
    }

    fn product(&mut self) -> Result<Expr, String> {
        let mut left = self.factor()?;
        loop {
            let op = match () {
                () if self.take("*") => Op::Multiply,
                () if self.take("/") => Op::Divide,
                () => return Ok(left),
            };
            left = Expr::Binary(op, Box::new(left), Box::new(self.factor()?));
        }
    }

    fn factor(&mut self) -> Result<Expr, String> {
        if self.take("-") {
            return Ok(Expr::Negative(Box::new(self.factor()?)));
        }
        if self.take("(") {
            let inner = self.comparison()?;
            self.expect(")")?;
            return Ok(inner);
        }
        self.space();
        if self.rest().starts_with(|c: char| c.is_ascii_digit()) {
            return self.number().map(Expr::Number);
        }
        let name = self.word(|c| c.is_alphanumeric() || c == '_');
        if name.is_empty() {
            return Err(self.error("expected a number, a measurement or `(`"));
        }
        if self.take("(") {
            return self.call(name);
        }
        let selectors = if self.take("[") { self.selectors()? } else { Vec::new() };
        Ok(Expr::Leaf(Leaf { name: name.to_owned(), selectors }))
    }

    fn call(&mut self, name: &str) -> Result<Expr, String> {
        if name == "crossing" {
            let of = Box::new(self.comparison()?);
            self.expect(",")?;
            self.space();
            let axis = self.word(|c| c != ',' && c != ')').trim_end().to_owned();
            self.expect(",")?;
            self.space();
            let level = self.number()?;
            self.expect(")")?;
            return Ok(Expr::Crossing { of, axis, level });
        }
        let function = match name {
            "min" => Function::Min,
            "max" => Function::Max,
            "mean" => Function::Mean,
            "abs" => Function::Abs,
            _ => return Err(format!("there is no function `{name}` in `{}`", self.text)),
        };
        let mut arguments = vec![self.comparison()?];
        while self.take(",") {
            arguments.push(self.comparison()?);
        }
        self.expect(")")?;
        if function == Function::Abs && arguments.len() != 1 {
            return Err(format!("`abs` has one argument in `{}`", self.text));
        }
        Ok(Expr::Call(function, arguments))
    }

    fn selectors(&mut self) -> Result<Vec<Selector>, String> {
        let mut all = Vec::new();
        loop {
            self.space();
            let text = self.word(|c| c != ',' && c != ']').trim();
            if text.is_empty() {
                return Err(self.error("expected a transport or KEY=VALUE"));
            }
            let (key, value) = match text.split_once('=') {
                Some((key, value)) => (key.trim(), value.trim()),
                None => ("transport", text),
            };
            all.push(Selector { key: key.to_owned(), value: value.to_owned() });
            if self.take("]") {
                return Ok(all);
            }
            self.expect(",")?;
        }
    }

    fn number(&mut self) -> Result<f64, String> {
        let digits = self.word(|c| c.is_ascii_digit() || c == '.');
        digits.parse().map_err(|_| self.error(&format!("`{digits}` is not a number")))
    }

    fn word(&mut self, is_part: impl Fn(char) -> bool) -> &'a str {
        let rest = self.rest();
        let end = rest.find(|c: char| !is_part(c)).unwrap_or(rest.len());
        self.at += end;
        &rest[..end]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(text: &str) -> f64 {
        fn of(e: &Expr) -> f64 {
            match e {
                Expr::Number(x) => *x,
                Expr::Negative(e) => -of(e),
                Expr::Binary(op, a, b) => op.apply(of(a), of(b)),
                Expr::Call(f, all) => f.apply(&all.iter().map(of).collect::<Vec<_>>()),
                Expr::Leaf(_) | Expr::Crossing { .. } => panic!("no measurements here"),
            }
        }
        of(&Expr::parse(text).unwrap())
    }

    #[test]
    fn operators_bind_as_usual() {
        assert_eq!(value("1 + 2 * 3 - 4 / 2"), 5.0);
        assert_eq!(value("-(1 - 3) * 2"), 4.0);
        assert_eq!(value("2 - 1 - 1"), 0.0);
        assert_eq!(value("(3 >= 3) + (2 > 3)"), 1.0);
        assert_eq!(value("max(1, min(5, 3), mean(2, 4)) + abs(1 - 2)"), 4.0);
    }

    #[test]
    fn measurements_have_selectors() {
        let expr = Expr::parse("fct_p99_us[ndp, workers=36, to=host 0] / 1000").unwrap();
        let mut names = Vec::new();
        expr.leaves(&mut |leaf| names.push(leaf.to_string()));
        assert_eq!(names, ["fct_p99_us[ndp, workers=36, to=host 0]"]);
        let more = Selector { key: "transport".into(), value: "tcp".into() };
        assert_eq!(expr.selecting(&[more]), expr, "a selector that is there stays");
    }

    #[test]
    fn errors_say_where() {
        for (text, part) in [
            ("1 +", "at the end of"),
            ("met[", "expected a transport"),
            ("met[d3", "expected `,`"),
            ("1 2", "at `2`"),
            ("sinus(1)", "no function `sinus`"),
            ("abs(1, 2)", "one argument"),
            ("crossing(met, axis)", "expected `,`"),
            ("", "expected a number"),
            ("1.2.3", "not a number"),
        ] {
            let error = Expr::parse(text).unwrap_err();
            assert!(error.contains(part), "{text}: {error}");
        }
    }
}
