// The package `@anthropic-ai/sdk`.

import assert from "node:assert/strict";
import Anthropic from "@anthropic-ai/sdk";
import * as h from "./harness.mjs";

const client = new Anthropic({ baseURL: h.ROOT, apiKey: h.KEY, maxRetries: 0 });
const asking = (content) => ({
  model: h.MODEL,
  max_tokens: 1000,
  messages: [{ role: "user", content }],
});
const tools = [{ name: "get_weather", input_schema: h.WEATHER_PARAMETERS }];

await h.runFeatures({
  async chat() {
    const message = await client.messages.create(asking("first of all"));
    assert.equal(message.content[0].text, "first of all");
  },

  async stream() {
    const stream = client.messages.stream(asking("first of all"));
    assert.equal(await stream.finalText(), "first of all");
  },

  async tools_forced() {
    const tool_choice = { type: "tool", name: "get_weather" };
    const message = await client.messages.create({ ...asking("Hello"), tools, tool_choice });
    assert.ok(message.content[0].input.city in h.FORECAST);
  },

  async tools_streamed() {
    const stream = client.messages.stream({ ...asking(h.QUESTION), tools });
    const message = await stream.finalMessage();
    assert.deepEqual(message.content.map((call) => call.input.city), ["Paris", "Oslo"]);
  },

  async tools_loop() {
    const given = { ...asking(h.QUESTION), tools };
    const { content } = await client.messages.create(given);
    const results = content.map((call) => ({
      type: "tool_result",
      tool_use_id: call.id,
      content: h.FORECAST[call.input.city],
    }));
    given.messages.push({ role: "assistant", content }, { role: "user", content: results });
    const message = await client.messages.create(given);
    assert.equal(message.content[0].text, h.SAID);
  },

  async reasoning() {
    const thinking = { type: "enabled", budget_tokens: 1024 };
    const given = { ...asking("Think: two and two?"), max_tokens: 1500, thinking };
    const [thought, text] = (await client.messages.create(given)).content;
    assert.equal(thought.thinking, "Two and two make four.");
    assert.equal(text.text, "It is four.");
  },

  async error_model() {
    const asked = client.messages.create({ ...asking("Hello"), model: "claude-9" });
    await assert.rejects(asked, Anthropic.NotFoundError);
  },

  async error_context() {
    const asked = client.messages.create(asking(h.TOO_LONG));
    await assert.rejects(asked, Anthropic.BadRequestError);
  },

  async error_key() {
    const stranger = new Anthropic({ baseURL: h.ROOT, apiKey: "wrong", maxRetries: 0 });
    const asked = stranger.messages.create(asking("Hello"));
    await assert.rejects(asked, Anthropic.AuthenticationError);
  },

  async cancel() {
    const stream = await client.messages.create({ ...asking("Count"), stream: true });
    for await (const _ of stream) break;
    const hasty = client.messages.create(asking("Count"), { timeout: 50 });
    await assert.rejects(hasty, Anthropic.APIConnectionTimeoutError);
    await h.waitUntilIdle();
  },
});
