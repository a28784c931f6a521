//! Pages, access, media for players, and Chromium with the page.

mod access;
mod browser;
mod media;
mod site;
