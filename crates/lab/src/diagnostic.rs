//! Diagnostics: what is wrong with a scenario, where, and what to do.

use crate::source::Sources;
use annotate_snippets::{AnnotationKind, Level, Renderer, Snippet};
use std::ops::Range;
use std::sync::Arc;

/// One mistake in a scenario.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diagnostic {
    /// What is wrong.
    pub message: String,
    /// Where it is, in the scenario's [`Sources`]; none if it is about the whole file.
    pub span: Option<Range<usize>>,
    /// A note beside the marked text.
    pub label: String,
    /// How to correct it.
    pub help: Option<String>,
}

impl Diagnostic {
    /// A message about the scenario as a whole.
    pub fn new(message: impl Into<String>) -> Self {
        Diagnostic { message: message.into(), span: None, label: String::new(), help: None }
    }

    /// Sets the place that the message marks.
    pub fn at(mut self, span: impl Into<Option<Range<usize>>>) -> Self {
        self.span = span.into();
        self
    }

    /// Sets the note beside the marked text.
    pub fn label(mut self, label: impl Into<String>) -> Self {
        self.label = label.into();
        self
    }

    /// Sets the advice on how to correct it.
    pub fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }
}

/// A scenario that cannot be run, with all mistakes found.
#[derive(Debug, Clone)]
pub struct ScenarioError {
    sources: Arc<Sources>,
    diagnostics: Vec<Diagnostic>,
}

impl ScenarioError {
    pub(crate) fn new(sources: &Arc<Sources>, mut diagnostics: Vec<Diagnostic>) -> Self {
        diagnostics.sort_by_key(|d| d.span.as_ref().map(|s| s.start));
        diagnostics.dedup();
        ScenarioError { sources: sources.clone(), diagnostics }
    }

    /// The mistakes, in the order of the file.
    pub fn diagnostics(&self) -> &[Diagnostic] {
        &self.diagnostics
    }

    /// The messages with the lines of the file, as a terminal shows them.
    pub fn render(&self, colour: bool) -> String {
        let renderer = if colour { Renderer::styled() } else { Renderer::plain() };
        let mut out = String::new();
        for diagnostic in &self.diagnostics {
            if !out.is_empty() {
                out.push_str("\n\n");
            }
            out.push_str(&self.render_one(diagnostic, &renderer));
        }
        out
    }

    fn render_one(&self, d: &Diagnostic, renderer: &Renderer) -> String {
        let title = Level::ERROR.primary_title(&d.message);
        let place = d.span.as_ref().map(|span| self.sources.place(span));
        let mut group = match &place {
            Some(place) => {
                let annotation = AnnotationKind::Primary.span(place.range.clone()).label(&d.label);
                title.element(Snippet::source(place.text).path(place.name).annotation(annotation))
            }
            None => title.element(annotate_snippets::Origin::path(self.sources.file())),
        };
        if let Some(help) = &d.help {
            group = group.element(Level::HELP.message(help));
        }
        renderer.render(&[group])
    }
}

/// The plain form of [`render`](ScenarioError::render).
impl std::fmt::Display for ScenarioError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.render(false))
    }
}

impl std::error::Error for ScenarioError {}
