// What the programs for node share; see harness.py.

export const ROOT = process.argv[2];
export const V1 = `${ROOT}/v1`;
export const KEY = process.env.CLIENTS_KEY;
export const NARROW_KEY = process.env.CLIENTS_NARROW_KEY;
export const MODEL = "demo";

export const QUESTION = "What is the weather in Paris and Oslo?";
export const FORECAST = { Paris: "sun", Oslo: "rain" };
export const SAID = "The tools say: sun, rain.";
export const TOO_LONG = "word ".repeat(2500);
const FEATURE_MS = 60_000;

export const WEATHER_PARAMETERS = {
  type: "object",
  properties: { city: { type: "string", enum: Object.keys(FORECAST) } },
  required: ["city"],
  additionalProperties: false,
};

/** Waits until the server has ended all requests, as it does when clients leave. */
export async function waitUntilIdle() {
  const deadline = Date.now() + FEATURE_MS / 2;
  for (;;) {
    const headers = { Authorization: `Bearer ${KEY}` };
    const load = await (await fetch(`${ROOT}/load`, { headers })).json();
    if (!load.server_load) return;
    if (Date.now() > deadline) throw new Error("requests are still open");
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

/** Tries features, by name, and reports each. */
export async function runFeatures(features) {
  for (const [feature, tryIt] of Object.entries(features)) {
    let detail = "";
    try {
      await Promise.race([tryIt(), late()]);
    } catch (error) {
      detail = String(error?.stack ?? error).slice(-4000);
    }
    console.log(JSON.stringify({ feature, ok: !detail, detail }));
  }
  process.exit(0);
}

function late() {
  return new Promise((_, reject) => {
    const late = () => reject(new Error(`it takes longer than ${FEATURE_MS} ms`));
    setTimeout(late, FEATURE_MS).unref();
  });
}
