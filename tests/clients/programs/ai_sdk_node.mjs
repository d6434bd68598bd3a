// The packages `ai` and `@ai-sdk/openai`, with responses (its default) and with chats.

import assert from "node:assert/strict";
import { createOpenAI } from "@ai-sdk/openai";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { APICallError, embedMany, generateText, Output, stepCountIs, streamText, tool } from "ai";
import { z } from "zod";
import * as h from "./harness.mjs";

const openai = createOpenAI({ baseURL: h.V1, apiKey: h.KEY });
const compatible = createOpenAICompatible({ name: "hookline", baseURL: h.V1, apiKey: h.KEY });
const chat = openai.chat(h.MODEL);
const responses = openai.responses(h.MODEL);
const schema = z.object({ sky: z.enum(["sun", "rain"]), is_windy: z.boolean() });
const get_weather = tool({
  description: "Tells the weather of a city.",
  inputSchema: z.object({ city: z.enum(["Paris", "Oslo"]) }),
  execute: async ({ city }) => h.FORECAST[city],
});
const agent = { prompt: h.QUESTION, tools: { get_weather }, stopWhen: stepCountIs(3) };
const once = { maxRetries: 0 };

await h.runFeatures({
  async chat() {
    const { text, usage } = await generateText({ model: chat, prompt: "first of all" });
    assert.equal(text, "first of all");
    assert.ok(usage.outputTokens > 0);
  },

  async stream() {
    let text = "";
    for await (const piece of streamText({ model: chat, prompt: "first of all" }).textStream)
      text += piece;
    assert.equal(text, "first of all");
  },

  async usage() {
    const usage = await streamText({ model: chat, prompt: "first of all" }).usage;
    assert.ok(usage.inputTokens > 0 && usage.outputTokens > 0);
  },

  async tools_forced() {
    const toolChoice = { type: "tool", toolName: "get_weather" };
    const given = { prompt: "Hello", tools: { get_weather }, toolChoice };
    const { toolCalls } = await generateText({ model: chat, ...given });
    assert.ok(toolCalls[0].input.city in h.FORECAST);
  },

  async tools_streamed() {
    assert.equal(await streamText({ model: chat, ...agent }).text, h.SAID);
  },

  async tools_loop() {
    const { text, steps } = await generateText({ model: chat, ...agent });
    assert.equal(steps[0].toolCalls.length, 2);
    assert.equal(text, h.SAID);
  },

  async structured() {
    const output = Output.object({ schema });
    const made = await generateText({ model: chat, prompt: "Hello", output });
    assert.ok(schema.safeParse(made.output).success);
  },

  async structured_streamed() {
    const output = Output.object({ schema });
    const made = streamText({ model: chat, prompt: "Hello", output });
    let last;
    for await (last of made.partialOutputStream);
    assert.ok(schema.safeParse(last).success);
  },

  async reasoning() {
    const model = compatible(h.MODEL);
    const { text, reasoningText } = await generateText({ model, prompt: "Think: 2 + 2?" });
    assert.equal(reasoningText, "Two and two make four.");
    assert.equal(text, "It is four.");
  },

  async responses() {
    const { text } = await generateText({ model: responses, prompt: "first of all" });
    assert.equal(text, "first of all");
  },

  async responses_streamed() {
    assert.equal(await streamText({ model: responses, ...agent }).text, h.SAID);
  },

  async responses_parsed() {
    const output = Output.object({ schema });
    const made = await generateText({ model: responses, prompt: "Hello", output });
    assert.ok(schema.safeParse(made.output).success);
  },

  async responses_loop() {
    assert.equal((await generateText({ model: responses, ...agent })).text, h.SAID);
  },

  async embeddings() {
    const model = openai.embedding(h.MODEL);
    const { embeddings } = await embedMany({ model, values: ["one text", "another"] });
    assert.equal(embeddings.length, 2);
  },

  async error_model() {
    const asked = generateText({ model: openai.chat("gpt-9"), prompt: "Hello", ...once });
    await assert.rejects(asked, (error) => {
      assert.ok(APICallError.isInstance(error));
      assert.equal(error.statusCode, 404);
      return true;
    });
  },

  async error_context() {
    const asked = generateText({ model: chat, prompt: h.TOO_LONG, ...once });
    await assert.rejects(asked, /maximum context length/);
  },

  async error_rate() {
    const narrow = createOpenAI({ baseURL: h.V1, apiKey: h.NARROW_KEY }).chat(h.MODEL);
    const leaving = new AbortController();
    const abortSignal = leaving.signal;
    const held = streamText({ model: narrow, prompt: "Count", abortSignal });
    for await (const _ of held.textStream) break;
    await assert.rejects(generateText({ model: narrow, prompt: "first", ...once }));
    setTimeout(() => leaving.abort(), 1000);
    const { text } = await generateText({ model: narrow, prompt: "first", maxRetries: 5 });
    assert.equal(text, "first");
  },

  async cancel() {
    const abortSignal = AbortSignal.timeout(100);
    const asked = generateText({ model: chat, prompt: "Count", abortSignal, ...once });
    await assert.rejects(asked);
    await h.waitUntilIdle();
  },
});
