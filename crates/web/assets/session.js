// @ts-check
// The token of the URL's fragment, and tickets for requests that cannot have headers.

export class Refused extends Error {}

export const LOST = "the connection to layercast web is lost; connecting again";

const fragment = new URLSearchParams(location.hash.slice(1));
const token = fragment.get("token") ?? "";
/** The transport that the URL asks for; null: the best one that works. */
export const wanted = fragment.get("transport");
/** The flow and the level that the URL asks for; null: the first one, and auto. */
export const chosen = { flow: fragment.get("flow"), level: fragment.get("level") };

/** A request, which fails with words of ours where no answer comes. @param {string} url @param {RequestInit} [options] */
export async function ask(url, options) {
  return fetch(url, options).catch(() => { throw new Error(LOST); });
}

/**
 * A ticket for one request, and where WebTransport is to be had with it.
 * @returns {Promise<{ ticket: string, transport: { port: number | null, fingerprints: string[], why: string | null } }>}
 */
export async function grant() {
  if (!token) throw new Refused("this page needs the token of viewers: open the whole URL that layercast web printed, with #token=...");
  const answer = await ask("/api/ticket", { method: "POST", headers: { Authorization: `Bearer ${token}` } });
  if (answer.status === 401) throw new Refused("the token of this page is wrong: open the URL that layercast web printed last");
  if (!answer.ok) throw new Error((await answer.text()).trim());
  return answer.json();
}

/**
 * The address of a resource, with a ticket for one request.
 * @param {string} path @param {Record<string, string>} [query]
 */
export async function address(path, query = {}) {
  return `${path}?${new URLSearchParams({ ...query, ticket: (await grant()).ticket })}`;
}

/** @param {string} path @param {Record<string, string>} [query] */
export async function read(path, query) {
  const answer = await ask(await address(path, query));
  if (!answer.ok) throw new Error((await answer.text()).trim());
  return answer.json();
}

/** Whether a test asks the page what it does. */
export const isAsked = fragment.has("report");

/** Posts what the page found out about itself, where a test asks for it. @param {object} what */
export function report(what) {
  if (!isAsked) return;
  fetch("/report", { method: "POST", body: JSON.stringify(what) }).catch(() => {});
}
