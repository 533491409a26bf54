// Part of Bench: the example gallery, and the line above the answer that says what to look at.

class Gallery {
  exampleState(id) {
    const example = this.config.examples.find((each) => each.id === id);
    if (!example) throw new Unreadable('state_no_example');
    const inputs = { ...this.initial, messages: '', tools: '', documents: '', arguments: '', clock: '', panes: String(example.panes.length), ...example.fields, ...example.options };
    example.panes.forEach((pane, q) => {
      inputs['tokenizer' + q] = pane.tokenizer;
      inputs['template' + q] = pane.template_text === null ? pane.template : PASTED;
      inputs['template_text' + q] = pane.template_text === null ? '' : pane.template_text;
    });
    return { schema: STATE_SCHEMA, inputs, view: example.view, colour: example.colour, example: id, pick: null, switches: { ids: FLOW.ids, split: false, safe: false, folded: this.folded } };
  }
  showExamples() { this.drawExamples(); this.$('.ti-gallery').showModal(); this.$('.ti-gallery .ti-case').focus(); }
  drawExamples() {
    const host = this.$('.ti-cases'), topics = [...new Set(this.config.examples.map(({ topic }) => topic))];
    host.replaceChildren(...topics.map((topic) => {
      const section = el('section', 'ti-topic'), list = el('div', 'ti-caselist');
      section.append(el('h3', 'ti-h2', t('topic_' + topic)), list);
      for (const { id } of this.config.examples.filter((example) => example.topic === topic)) {
        const card = button('ti-case', '', () => this.openExample(id));
        card.dataset.example = id;
        card.append(el('b', '', t('ex_' + id)), el('span', 'ti-dim', t('ex_' + id + '_text')));
        list.append(card);
      }
      return section;
    }));
  }
  openExample(id) {
    const mine = this.example ? this.mine : this.capture(), state = this.exampleState(id);
    this.$('.ti-gallery').close();
    this.visit(state, '#example=' + id);
    this.mine = mine; this.notice = '';
    this.apply(state);
    this.linked = this.inputs();
  }
  backToMine() {
    const { mine } = this;
    this.mine = null;
    this.visit(mine, '');
    this.apply(mine);
    this.$('[data-act="examples"]').focus();
  }
  closeNotice() { this.example = null; this.notice = ''; this.showNotice(); this.remember(true); this.$('[data-act="examples"]').focus(); }
  // Why a link could not be opened, or what to look at in the example that is open.
  showNotice() {
    const host = this.$('.ti-notice'), { example } = this, close = button('ti-btn', t('example_close'), () => this.closeNotice());
    host.hidden = !this.notice && !example;
    host.classList.toggle('ti-err', Boolean(this.notice));
    host.setAttribute('role', this.notice ? 'alert' : 'note');
    if (this.notice) { host.replaceChildren(el('span', '', this.notice), close); return; }
    if (!example) return;
    const text = el('p');
    text.append(el('b', '', t('ex_' + example)), ' ', t('ex_' + example + '_text'));
    host.replaceChildren(text, ...(this.mine ? [button('ti-btn', t('examples_back'), () => this.backToMine())] : []), close);
  }
  listenGallery() {
    const box = this.$('.ti-gallery');
    for (const dialog of [box, this.$('.ti-share')]) dialog.addEventListener('click', (event) => { if (event.target === dialog) dialog.close(); });
    box.addEventListener('keydown', (event) => {
      const step = { ArrowDown: 1, ArrowRight: 1, ArrowUp: -1, ArrowLeft: -1 }[event.key], cards = [...box.querySelectorAll('.ti-case')], at = cards.indexOf(document.activeElement);
      if (!step || at < 0) return;
      event.preventDefault();
      cards[(at + step + cards.length) % cards.length].focus();
    });
  }
}
