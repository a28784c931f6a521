// @ts-check
// The token of the URL's fragment, and tickets for requests that cannot have headers.

export class Refused extends Error {}

const token = new URLSearchParams(location.hash.slice(1)).get("token") ?? "";

/** @returns {Promise<string>} a ticket for one request */
async function ticket() {
  if (!token) throw new Refused("this page needs the token of viewers: open the whole URL that layercast web printed, with #token=...");
  const answer = await fetch("/api/ticket", { method: "POST", headers: { Authorization: `Bearer ${token}` } });
  if (answer.status === 401) throw new Refused("the token of this page is wrong: open the URL that layercast web printed last");
  if (!answer.ok) throw new Error(await answer.text());
  return (await answer.json()).ticket;
}

/**
 * The address of a resource, with a ticket for one request.
 * @param {string} path @param {Record<string, string>} [query]
 */
export async function address(path, query = {}) {
  return `${path}?${new URLSearchParams({ ...query, ticket: await ticket() })}`;
}

/** @param {string} path @param {Record<string, string>} [query] */
export async function read(path, query) {
  const answer = await fetch(await address(path, query));
  if (!answer.ok) throw new Error(await answer.text());
  return answer.json();
}

/** Whether a test asks the page what it does. */
export const isAsked = new URLSearchParams(location.hash.slice(1)).has("report");

/** Posts what the page found out about itself, where a test asks for it. @param {object} what */
export function report(what) {
  if (!isAsked) return;
  fetch("/report", { method: "POST", body: JSON.stringify(what) }).catch(() => {});
}
