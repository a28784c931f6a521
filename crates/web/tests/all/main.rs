//! Pages, access, media for players, and Chromium with the page.

mod access;
mod browser;
mod counters;
mod media;
mod site;
