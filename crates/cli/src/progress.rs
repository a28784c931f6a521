//! Progress bars.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

/// A bar for work whose length is known, on standard error; hidden where there is no terminal.
pub fn bar(length: u64, template: &str) -> ProgressBar {
    let bar = ProgressBar::new(length).with_style(style(template));
    bar.enable_steady_tick(Duration::from_millis(250));
    bar
}

/// The style that `template` describes.
pub fn style(template: &str) -> ProgressStyle {
    let style = ProgressStyle::with_template(template);
    style.unwrap_or_else(|_| ProgressStyle::default_bar())
}
